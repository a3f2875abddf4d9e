import { filled, filledUrl, placeholders, refusedOrigin } from "../../../providers/http-templates.ts";

/**
 * Templates of URLs and bodies. A placeholder names a field and its encoding, so that no value leaves its place:
 * `{{ .Value | json }}`. In URLs only the name is allowed, always percent-encoded, because servers log URLs.
 */

const BODY_FIELD = /^\.(Name|Value)\s*\|\s*(json|url|base64|raw)$/;
const URL_FIELD = /^\.Name(\s*\|\s*url)?$/;

type Encoding = "json" | "url" | "base64" | "raw";

const encodings: Readonly<Record<Encoding, (text: string) => string>> = {
  json: (text) => JSON.stringify(text),
  url: encodeURIComponent,
  base64: (text) => Buffer.from(text).toString("base64"),
  raw: (text) => text,
};

/** The refusal of a body template, without the field's name; null when it is valid. */
export function refuseBody(template: string, mayHaveValue: boolean): string | null {
  const wrong = placeholders(template).find((field) => !BODY_FIELD.test(field));
  if (wrong !== undefined) {
    return "placeholders must be {{ .Name | json }} or {{ .Value | json }}, with json, url, base64 or raw";
  }
  const hasValue = placeholders(template).some((field) => field.startsWith(".Value"));
  return hasValue && !mayHaveValue ? "must not have the value" : null;
}

/** The refusal of a URL template, without the field's name; null when it is valid. */
export function refuseUrlTemplate(template: string): string | null {
  if (placeholders(template).some((field) => !URL_FIELD.test(field))) {
    return "may have the placeholder {{ .Name }} only: URLs are logged";
  }
  return refusedOrigin(template);
}

/** The URL for a name; null when the name would change its path, as dots alone do. */
export const renderUrl = (template: string, name: string): string | null => filledUrl(template, () => name);

export function renderBody(template: string, { name, value }: { name: string; value: string }): string {
  return filled(template, (given) => {
    const [, field, encoding] = BODY_FIELD.exec(given) ?? [];
    return encodings[(encoding ?? "json") as Encoding](field === "Name" ? name : value);
  });
}
