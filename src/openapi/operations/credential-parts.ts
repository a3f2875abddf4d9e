import * as z from "zod";
import type { EngineDescription } from "../../credentials/engines/description.ts";
import { seconds, texts, time } from "../../wire/shapes.ts";
import { type Operation, type Parameters, text } from "../operation.ts";

/** Parts that the descriptions of the types of engines share. */

/** Errors of operations that call the provider. */
export const UPSTREAM_FAILS = [502, 504];

/** The help of each field that has one. */
export const helpOf = (fields: EngineDescription["config"]): Record<string, string> =>
  Object.fromEntries(Object.entries(fields).map(([name, { help = "" }]) => [name, help]));

/** The schedule of rotations in a configuration. */
export const rotationSettings = {
  rotation_schedule: z.string(),
  rotation_window: seconds,
  rotation_period: seconds,
  rotation_policy: z.string(),
  disable_automated_rotation: z.boolean(),
};
export const next_rotation_date = time.optional().describe("Time of the next automatic rotation.");

/** Metadata of a request for credentials, and of its answer. */
export const askedMetadata = text("`key=value`, repeatedly: answered with the credentials.");
export const metadata = texts.optional();

export const idempotencyKey: Parameters = {
  "X-Orch-Idempotency-Key": text("Repeating a request with the same key gives the same lease; at most 256 characters."),
};

/** The two operations of a path that issues credentials, with parameters in the query or in the body. */
export const issuing = (
  path: string,
  id: string,
  summary: string,
  parameters: Readonly<Record<string, string>>,
  common: Pick<Operation, "headers" | "answers">,
): Record<string, Operation> => ({
  [`GET ${path}`]: {
    id: `generate${id}`,
    summary,
    query: { ...parameters, metadata: askedMetadata },
    ...common,
    errors: [405, ...UPSTREAM_FAILS],
  },
  [`POST ${path}`]: {
    id: `generate${id}WithParameters`,
    summary: `${summary}, with parameters in the body`,
    query: { metadata: askedMetadata },
    body: { fields: parameters },
    ...common,
    errors: UPSTREAM_FAILS,
  },
});
