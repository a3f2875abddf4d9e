import { stringMap } from "../../platform/http/fields.ts";

const MAX_METADATA = 64;

/** Metadata of roles and of requests for credentials. */
export const metadataMap = () =>
  stringMap()
    .refine((map) => Object.keys(map).length <= MAX_METADATA, `at most ${MAX_METADATA} entries`)
    .refine(
      (map) => Object.entries(map).every(([key, value]) => key !== "" && key.length <= 128 && value.length <= 512),
      "each key must be 1 to 128 characters, each value at most 512",
    );
