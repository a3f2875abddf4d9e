import { inject } from "vitest";
import type { Exchange } from "../openapi/checker.ts";
import { type Answer, send } from "./client.ts";

/** What tests of the API's document share: requests whose answers are held against it. */

type Options = Parameters<typeof send>[3];

/** Sends, and keeps what was sent and answered. */
export class Run {
  readonly #seen: Exchange[] = [];

  /** @throws Error when the answer is no success */
  async ok(method: string, path: string, body?: unknown, options?: Options): Promise<Answer> {
    const answer = await this.any(method, path, body, options);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer;
  }

  async any(method: string, path: string, body?: unknown, options?: Options): Promise<Answer> {
    const answer = await send(method, path, body, options);
    this.keep(method, path, body, answer);
    return answer;
  }

  keep(method: string, path: string, body: unknown, answer: Pick<Answer, "status" | "headers" | "text">): void {
    const isList = method === "LIST";
    this.#seen.push({
      method: isList ? "GET" : method,
      path: isList ? `${path}${path.includes("?") ? "&" : "?"}list=true` : path,
      sent: body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body),
      status: answer.status,
      type: answer.headers.get("Content-Type"),
      text: answer.text,
    });
  }

  /** What of all this the document does not say. */
  async problems(): Promise<string[]> {
    return (await ask("/check", this.#seen)) as string[];
  }
}

/** Operations that no test of this run has seen succeed. @param tags which ones are asked about */
export const unproven = async (tags: readonly string[]): Promise<string[]> =>
  (await ask("/unproven", tags)) as string[];

/** The checker is a process of its own, as it makes code from schemas, which the Workers runtime does not allow. */
async function ask(path: string, body: unknown): Promise<unknown> {
  const answer = await fetch(`${inject("openApiChecker")}${path}`, { method: "POST", body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}
