import { env } from "cloudflare:workers";
import type { Fault, StoredObject } from "../doubles/stand-in.ts";

type Body = Record<string, unknown>;
type Opened = { readonly id: string } & Readonly<Record<"body" | "wrongCredentials" | "missing", Body>>;

/** A `Place` of a stand-in, over HTTP (test/doubles/places-server.ts). */
export class RemotePlace {
  readonly body: Body;
  readonly wrongCredentials: Body;
  readonly missing: Body;
  readonly #id: string;

  private constructor({ id, body, wrongCredentials, missing }: Opened) {
    this.#id = id;
    this.body = body;
    this.wrongCredentials = wrongCredentials;
    this.missing = missing;
  }

  static async open(type: string): Promise<RemotePlace> {
    return new RemotePlace((await post(type)) as Opened);
  }

  /** The values by name. */
  async values(): Promise<Record<string, string>> {
    return Object.fromEntries([...(await this.objects())].map(([name, { value }]) => [name, value]));
  }

  async objects(): Promise<ReadonlyMap<string, StoredObject>> {
    return new Map((await this.#call("objects")) as [string, StoredObject][]);
  }

  write = (name: string, value: string) => this.#call("write", name, value);
  writeShown = (name: string, value: string) => this.#call("writeShown", name, value);
  remove = (name: string) => this.#call("remove", name);
  writes = async (): Promise<number> => Number(await this.#call("writes"));
  fail = (fault: Fault, times: number) => this.#call("fail", fault, times);

  #call = (method: string, ...given: unknown[]) => post(`${this.#id}/${method}`, given);
}

async function post(path: string, given: unknown[] = []): Promise<unknown> {
  const answer = await fetch(`${env.TEST_STAND_INS.url}/${path}`, { method: "POST", body: JSON.stringify(given) });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}
