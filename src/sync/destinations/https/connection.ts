import * as z from "zod";
import { stringMap } from "../../../platform/http/fields.ts";
import {
  isHeaderName,
  isHeaderValue,
  isOwnHeader,
  POINTER,
  SIGNING_SECRET,
} from "../../../providers/http-templates.ts";
import { choice, connectionSchema, optionalText } from "../fields.ts";
import { hasField, refuseBody, refuseUrlTemplate } from "./template.ts";

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
const withId = (text: string) => refuseUrlTemplate(text, { id: true });
const pointer = () => optionalText(POINTER, "must be a JSON pointer such as /data/version");

/** A destination's requests. */
export const httpsConnection = connectionSchema(
  () => ({
    url: template((text) => refuseUrlTemplate(text)).refine((text) => text !== "", "must be a URL"),
    method: choice("PUT", "POST", "PATCH"),
    headers: headers(),
    body: template((text) => refuseBody(text, { value: true })).optional(),
    content_type: optionalText(/^[\w.+-]+\/[\w.+-]+(; ?[\w.+=-]+)?$/, "must be a media type"),
    success_pointer: pointer(),
    delete_method: choice("DELETE", "POST", "PUT", "PATCH", "none"),
    change_method: choice("PUT", "POST", "PATCH"),
    change_url: template(withId).optional(),
    change_body: template((text) => refuseBody(text, { value: true, id: true })).optional(),
    delete_url: template(withId).optional(),
    delete_body: template((text) => refuseBody(text, { id: true })).optional(),
    inspect_url: template((text) => refuseUrlTemplate(text)).optional(),
    list_pointer: pointer(),
    name_pointer: pointer(),
    next_pointer: pointer(),
    id_pointer: pointer(),
    owner_pointer: pointer(),
    value_pointer: pointer(),
    version_pointer: pointer(),
    probe_url: template((text) => refuseUrlTemplate(text)).optional(),
    signing_secret: optionalText(SIGNING_SECRET, "must be whsec_ and the base64 text of 24 to 64 bytes"),
  }),
  (given, refuse) => {
    const origin = URL.parse(given.url)?.origin;
    for (const field of ["change_url", "delete_url", "inspect_url", "probe_url"] as const) {
      if (given[field] && URL.parse(given[field])?.origin !== origin) refuse(field, "must have the host of url");
    }
    for (const [field, message] of missing(given)) refuse(field, message);
  },
);
export type HttpsConnection = z.infer<ReturnType<typeof httpsConnection>>;

type Given = { readonly [K in keyof HttpsConnection]?: unknown };

/** Fields whose effect needs another one, with the reason. */
function* missing(given: Given): Iterable<[field: keyof HttpsConnection, message: string]> {
  const read = ["name_pointer", "id_pointer", "owner_pointer", "value_pointer"] as const;
  for (const field of [...read, "change_method", "change_url", "change_body"] as const) {
    if (given[field] && !given.inspect_url) yield [field, "needs inspect_url"];
  }
  for (const field of ["list_pointer", "next_pointer"] as const) {
    if (given[field] && !given.name_pointer) yield [field, "needs name_pointer"];
  }
  for (const field of ["change_url", "change_body", "delete_url", "delete_body"] as const) {
    if (hasField(textOf(given[field]), "Id") && !given.id_pointer) yield [field, "needs id_pointer for {{ .Id }}"];
  }
  const owns = (field: "body" | "change_body") => hasField(textOf(given[field]), "Owner");
  if (given.owner_pointer && !owns("body")) yield ["body", "needs {{ .Owner | json }} for owner_pointer"];
  if (given.owner_pointer && given.change_body && !owns("change_body")) {
    yield ["change_body", "needs {{ .Owner | json }} for owner_pointer"];
  }
}

const textOf = (given: unknown): string => (typeof given === "string" ? given : "");
