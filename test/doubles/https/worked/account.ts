import { DoubleAccount, type Reply } from "../../http-double.ts";

/** An object of a worked example's API. */
interface WorkedObject {
  readonly value: string;
  readonly id: string;
  readonly version: number;
  /** The text that the API keeps beside the value, where it has one. */
  readonly comment: string;
}

/** The one place of an account at an API of examples/destinations. */
export class WorkedAccount extends DoubleAccount {
  readonly token = `made-up-${crypto.randomUUID()}`;
  readonly objects = new Map<string, WorkedObject>();
  #version = 1_790_000_000_000;

  write(name: string, value: string, comment = ""): WorkedObject {
    const id = this.objects.get(name)?.id ?? `{${crypto.randomUUID()}}`;
    const object = { value, id, version: ++this.#version, comment };
    this.objects.set(name, object);
    return object;
  }
}

/** The answers to faults, in the words of an API. */
export const refusalsIn = (body: unknown) =>
  ({
    throttled: { status: 429, body, headers: { "retry-after": "1" } },
    unavailable: { status: 503, body },
    forbidden: { status: 403, body },
  }) satisfies Record<string, Reply>;
