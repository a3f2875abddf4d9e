import * as z from "zod";
import { clearCorsCache } from "../access/system/cors-cached.ts";
import { stringList } from "../platform/http/fields.ts";
import { accessControl } from "../rpc/stubs.ts";
import { SHOWN_HEADERS } from "./server/cors.ts";
import { envelope, noContent } from "./server/respond.ts";
import { secrets } from "./server/route.ts";

/** Settings of cross-origin requests (https://developer.hashicorp.com/vault/api-docs/system/config-cors). */

const MAX_ENTRIES = 100;

const ORIGIN = /^(?:\*|[a-z][a-z0-9+.-]*:\/\/[^/\s?#@]{1,255})$/i;
/** A header's name: a token of RFC 9110, section 5.6.2. */
const HEADER = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;

const every = (pattern: RegExp) => (list: readonly string[]) => list.every((item) => pattern.test(item));
const few = (list: readonly string[]) => list.length <= MAX_ENTRIES;

const CorsBody = z.object({
  allowed_origins: stringList().pipe(
    z
      .array(z.string())
      .min(1, "at least one origin or the wildcard must be provided")
      .refine(few, `at most ${MAX_ENTRIES}`)
      .refine(every(ORIGIN), "each must be an origin such as https://app.example.com, or *")
      .refine(
        (list) => list.length === 1 || !list.includes("*"),
        "to allow all origins the '*' must be the only value for allowed_origins",
      ),
  ),
  allowed_headers: stringList()
    .pipe(
      z
        .array(z.string())
        .refine(few, `at most ${MAX_ENTRIES}`)
        .refine(every(HEADER), "each must be the name of a header"),
    )
    .default([]),
});

export const corsRoutes = [
  secrets("GET /sys/config/cors", { access: "sudo", fresh: true }, async (call) => {
    const settings = await accessControl(call.env).cors();
    const shown = settings && {
      allowed_origins: settings.origins,
      allowed_headers: [...SHOWN_HEADERS, ...settings.headers],
    };
    return envelope(call, { data: { enabled: settings !== null, ...shown }, flat: true });
  }),
  secrets(
    "POST /sys/config/cors",
    { access: "sudo", fresh: true, body: CorsBody },
    async (call, { allowed_origins, allowed_headers }) => {
      await accessControl(call.env).setCors({ origins: allowed_origins, headers: allowed_headers });
      clearCorsCache();
      return noContent();
    },
  ),
  secrets("DELETE /sys/config/cors", { access: "sudo", fresh: true }, async (call) => {
    await accessControl(call.env).setCors(null);
    clearCorsCache();
    return noContent();
  }),
];
