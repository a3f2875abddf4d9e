import * as z from "zod";
import { stringMap } from "../../../platform/http/fields.ts";
import {
  isHeaderName,
  isHeaderValue,
  isOwnHeader,
  POINTER,
  SIGNING_SECRET,
} from "../../../providers/http-templates.ts";
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

const headers = () =>
  stringMap()
    .refine((map) => Object.keys(map).length <= 32, "must be at most 32")
    .refine((map) => Object.keys(map).every(isHeaderName), "must have names of letters, digits and -")
    .refine((map) => !Object.keys(map).some(isOwnHeader), "must not have headers of the connection or of the service")
    .refine((map) => Object.values(map).every(isHeaderValue), "must have printable values of at most 4096 characters")
    .nullish();

const template = (refuse: (text: string) => string | null) =>
  z
    .string("must be a text")
    .max(8192, "must be at most 8192 characters")
    .superRefine((text, context) => {
      const refused = text === "" ? null : refuse(text);
      if (refused !== null) context.addIssue({ code: "custom", message: refused });
    });
const pointer = () => optionalText(POINTER, "must be a JSON pointer such as /data/version");

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
      signing_secret: optionalText(SIGNING_SECRET, "must be whsec_ and the base64 text of 24 to 64 bytes"),
    })
    .superRefine((given, context) => {
      const origin = URL.parse(given.url)?.origin;
      for (const field of ["delete_url", "inspect_url", "probe_url"] as const) {
        if (!given[field] || URL.parse(given[field])?.origin === origin) continue;
        context.addIssue({ code: "custom", path: [field], message: "must have the host of url" });
      }
    })
    .transform((given) => withoutUnset(given) as unknown as HttpsConnection);
