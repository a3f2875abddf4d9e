import { filled, filledUrl, placeholders, refusedOrigin } from "../../../providers/http-templates.ts";
import { MARKER_TEXT } from "../variables.ts";

/**
 * Templates of URLs and bodies. A placeholder names a field and its encoding, so that no value leaves its place:
 * `{{ .Value | json }}`. In URLs only names and ids are allowed, always percent-encoded, because servers log URLs.
 */

const BODY_FIELD = /^\.(Name|Value|Owner|Id)\s*\|\s*(json|url|base64|raw)$/;
const URL_FIELD = /^\.(Name|Id)(\s*\|\s*url)?$/;

/** The texts of one request. `id` is the API's own, where a read has shown it. */
export interface Texts {
  readonly name: string;
  readonly value?: string;
  readonly id?: string | undefined;
}

type Encoding = "json" | "url" | "base64" | "raw";

const encodings: Readonly<Record<Encoding, (text: string) => string>> = {
  json: (text) => JSON.stringify(text),
  url: encodeURIComponent,
  base64: (text) => Buffer.from(text).toString("base64"),
  raw: (text) => text,
};

/** Fields of a template beside the name. */
interface Permitted {
  readonly value?: true;
  readonly id?: true;
}

/** The refusal of a body template, without the field's name; null when it is valid. */
export function refuseBody(template: string, may: Permitted): string | null {
  const fields = placeholders(template);
  if (fields.some((field) => !BODY_FIELD.test(field))) {
    return "placeholders must be {{ .Name | json }}, .Value, .Owner or .Id, with json, url, base64 or raw";
  }
  if (!may.value && has(fields, "Value")) return "must not have the value";
  return !may.id && has(fields, "Id") ? "must not have the id of an object that does not exist" : null;
}

/** The refusal of a URL template, without the field's name; null when it is valid. */
export function refuseUrlTemplate(template: string, may: Permitted = {}): string | null {
  const fields = placeholders(template);
  if (fields.some((field) => !URL_FIELD.test(field) || (!may.id && has([field], "Id")))) {
    const permitted = may.id ? "{{ .Name }} and {{ .Id }}" : "{{ .Name }}";
    return `may have the placeholder ${permitted} only: URLs are logged`;
  }
  return refusedOrigin(template);
}

const has = (fields: readonly string[], field: string): boolean =>
  fields.some((each) => new RegExp(`^\\.${field}\\b`).test(each));

/** Whether a template has a field, such as "Owner". */
export const hasField = (template: string | undefined, field: "Name" | "Owner" | "Id"): boolean =>
  has(placeholders(template ?? ""), field);

/** The URL for an object; null when a text would change its path, as dots alone do. */
export const renderUrl = (template: string, { name, id = "" }: Texts): string | null =>
  filledUrl(template, (field) => (has([field], "Id") ? id : name));

export function renderBody(template: string, { name, value = "", id = "" }: Texts): string {
  const texts = { Name: name, Value: value, Owner: MARKER_TEXT, Id: id };
  return filled(template, (given) => {
    const [, field, encoding] = BODY_FIELD.exec(given) ?? [];
    return encodings[(encoding ?? "json") as Encoding](texts[(field ?? "Name") as keyof typeof texts]);
  });
}
