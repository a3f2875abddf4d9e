import * as z from "zod";
import { stringMap } from "../../../platform/http/fields.ts";
import { choice, optionalText, withoutUnset } from "../fields.ts";
import { refuseBody, refuseUrlTemplate } from "./template.ts";

/** A destination's requests. Unset fields are absent. */
export interface HttpsConnection {
  url: string;
  method?: "PUT" | "POST" | "PATCH";
  headers?: Readonly<Record<string, string>>;
  body?: string;
  content_type?: string;
  success_pointer?: string;
  delete_method?: "DELETE" | "POST" | "PUT" | "PATCH" | "none";
  delete_url?: string;
  delete_body?: string;
  inspect_url?: string;
  version_pointer?: string;
  probe_url?: string;
  signing_secret?: string;
}

/** Set by the runtime, by proxies, or by this service. */
const ownHeader =
  /^(host|content-length|content-type|connection|transfer-encoding|te|upgrade|expect|idempotency-key|cf-.*|x-forwarded-.*|webhook-.*)$/i;

const headers = () =>
  stringMap()
    .refine((map) => Object.keys(map).length <= 32, "must be at most 32")
    .refine(
      (map) => Object.keys(map).every((name) => /^[A-Za-z0-9-]{1,128}$/.test(name)),
      "must have names of letters, digits and -",
    )
    .refine(
      (map) => Object.keys(map).every((name) => !ownHeader.test(name)),
      "must not have headers of the connection or of the service",
    )
    .refine(
      (map) => Object.values(map).every((value) => /^[\x20-\x7e]{0,4096}$/.test(value)),
      "must have printable values of at most 4096 characters",
    )
    .nullish();

const template = (refuse: (text: string) => string | null) =>
  z
    .string("must be a text")
    .max(8192, "must be at most 8192 characters")
    .superRefine((text, context) => {
      const refused = text === "" ? null : refuse(text);
      if (refused !== null) context.addIssue({ code: "custom", message: refused });
    });
const pointer = () => optionalText(/^(\/([^~/]|~[01])*){1,16}$/, "must be a JSON pointer such as /data/version");

export const httpsConnection = () =>
  z
    .object({
      url: template(refuseUrlTemplate).refine((text) => text !== "", "must be a URL"),
      method: choice("PUT", "POST", "PATCH"),
      headers: headers(),
      body: template((text) => refuseBody(text, true)).optional(),
      content_type: optionalText(/^[\w.+-]+\/[\w.+-]+(; ?[\w.+=-]+)?$/, "must be a media type"),
      success_pointer: pointer(),
      delete_method: choice("DELETE", "POST", "PUT", "PATCH", "none"),
      delete_url: template(refuseUrlTemplate).optional(),
      delete_body: template((text) => refuseBody(text, false)).optional(),
      inspect_url: template(refuseUrlTemplate).optional(),
      version_pointer: pointer(),
      probe_url: template(refuseUrlTemplate).optional(),
      signing_secret: optionalText(
        /^whsec_(?=.{32,88}$)(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/,
        "must be whsec_ and the base64 text of 24 to 64 bytes",
      ),
    })
    .superRefine((given, context) => {
      const origin = URL.parse(given.url)?.origin;
      for (const field of ["delete_url", "inspect_url", "probe_url"] as const) {
        if (!given[field] || URL.parse(given[field])?.origin === origin) continue;
        context.addIssue({ code: "custom", path: [field], message: "must have the host of url" });
      }
    })
    .transform((given) => withoutUnset(given) as unknown as HttpsConnection);
