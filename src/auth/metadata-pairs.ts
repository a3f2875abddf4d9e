import * as z from "zod";
import { stringMap } from "../platform/http/fields.ts";

/** Bounds of upstream's custom metadata (https://github.com/hashicorp/vault, sdk/helper/custommetadata). */
const MAX_PAIRS = 64;
const MAX_KEY = 128;
const MAX_VALUE = 512;

/** Texts by name, as entities, groups, aliases, roles and users hold them. */
export const metadataPairs = () =>
  stringMap()
    .pipe(z.record(z.string().min(1).max(MAX_KEY), z.string().max(MAX_VALUE)))
    .refine((map) => Object.keys(map).length <= MAX_PAIRS, `at most ${MAX_PAIRS} keys`)
    .nullish();
