import type { Example } from "../../src/openapi/example.ts";
import type { Group } from "../../src/openapi/operation.ts";
import { groups } from "../../src/openapi/operations/index.ts";

/** The default mount in the API document; tests mount the engine elsewhere. */
const DOCUMENTED = / \/secret\//;

/** The example of each route that has one, by verb and path as tests name them: `GET /v1/kv/data/:path+`. */
export const examplesOf = (described: readonly Group[]): Readonly<Record<string, Example>> =>
  Object.fromEntries(
    described.flatMap(({ operations }) =>
      Object.entries(operations).flatMap(([key, { example }]) =>
        example ? [[key.replace(DOCUMENTED, " /kv/").replace(" ", " /v1"), example] as const] : [],
      ),
    ),
  );

export const examples = examplesOf(groups);
