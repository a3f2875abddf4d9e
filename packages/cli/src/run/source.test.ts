import { expect, it } from "vitest";
import type { Api } from "../api.ts";
import { Sources, wantedIn } from "./source.ts";

it("issues nothing after its end, and ends the credentials that were on their way", async () => {
  const sent: string[] = [];
  const ended: unknown[] = [];
  const answers = new Map<string, () => void>();
  const api = {
    fields: async () => ({ path: "aws/", type: "aws" }),
    write: async (_path: string, body: unknown) => void ended.push(body),
    call: async (_method: string, path: string) => {
      sent.push(path);
      await new Promise<void>((resolve) => answers.set(path, resolve));
      const lease = { lease_id: path, lease_duration: 60, renewable: true, data: { access_key: "a" } };
      return { text: JSON.stringify(lease) };
    },
  } as unknown as Api;
  const sources = new Sources(api, { isUpper: false, isForFiles: false });
  await sources.open([wantedIn("aws/creds/first"), wantedIn("aws/creds/second")]);
  const reading = expect(sources.read()).rejects.toThrow("the program has ended");
  await expect.poll(() => answers.has("aws/creds/first")).toBe(true);
  const closed = sources.close();
  answers.get("aws/creds/first")?.();
  await closed;
  await reading;
  expect([sent, ended]).toEqual([["aws/creds/first"], [{ lease_id: "aws/creds/first" }]]);
});
