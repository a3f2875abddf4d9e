import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeAll } from "vitest";

export const bucket = env.FILES as R2Bucket;

/** Bindings of a Worker whose audit log is stored by the objects of the tests. */
export const AUDITED = { AUDIT_COLLECTOR: env.AUDIT_COLLECTOR, AUDIT_BUCKET: bucket };

/** Binds a bucket for the audit log in all objects that are made from now on, until the end of the suite. */
export function bindBucket(settings: Readonly<Record<string, string>>): void {
  const bound = { AUDIT_BUCKET: bucket, ...settings };
  beforeAll(() => void Object.assign(env, bound));
  afterAll(() => {
    for (const name of Object.keys(bound)) Reflect.deleteProperty(env, name);
  });
  afterEach(async () => {
    for (const { key } of (await bucket.list()).objects) await bucket.delete(key);
  });
}

/** All lines in the bucket. */
export async function storedLines(): Promise<Record<string, unknown>[]> {
  const { objects } = await bucket.list();
  const texts = await Promise.all(objects.map(async ({ key }) => (await bucket.get(key))?.text() ?? ""));
  return texts.flatMap((text) => text.trimEnd().split("\n")).map((line) => JSON.parse(line));
}
