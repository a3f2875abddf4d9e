/**
 * Templates of URLs and bodies. A placeholder names a field and its encoding, so that no value leaves its place:
 * `{{ .Value | json }}`. In URLs only the name is allowed, always percent-encoded, because servers log URLs.
 */

const PLACEHOLDER = /\{\{\s*(.*?)\s*\}\}/g;
const BODY_FIELD = /^\.(Name|Value)\s*\|\s*(json|url|base64|raw)$/;
const URL_FIELD = /^\.Name(\s*\|\s*url)?$/;

type Encoding = "json" | "url" | "base64" | "raw";

const encodings: Readonly<Record<Encoding, (text: string) => string>> = {
  json: (text) => JSON.stringify(text),
  url: encodeURIComponent,
  base64: (text) => Buffer.from(text).toString("base64"),
  raw: (text) => text,
};

const placeholders = (template: string): string[] => [...template.matchAll(PLACEHOLDER)].map(([, field = ""]) => field);

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
  const url = URL.parse(template.replaceAll(PLACEHOLDER, "x"));
  if (url === null || !["https:", "http:"].includes(url.protocol))
    return "must be a URL such as https://api.example.com/x";
  if (url.username !== "" || url.password !== "" || url.hash !== "")
    return "must have neither credentials nor a fragment";
  // The host is the same for every name.
  return template.startsWith(`${url.origin}/`) ? null : "must begin with the origin and a path, without placeholders";
}

/** The URL for a name; null when the name would change its path, as dots alone do. */
export function renderUrl(template: string, name: string): string | null {
  const text = template.replaceAll(PLACEHOLDER, () => encodeURIComponent(name));
  const url = URL.parse(text);
  const [path = ""] = text.split("?");
  return url !== null && `${url.origin}${url.pathname}` === path ? text : null;
}

export function renderBody(template: string, { name, value }: { name: string; value: string }): string {
  return template.replaceAll(PLACEHOLDER, (_, given: string) => {
    const [, field, encoding] = BODY_FIELD.exec(given) ?? [];
    return encodings[(encoding ?? "json") as Encoding](field === "Name" ? name : value);
  });
}

/** The member of a JSON document at a pointer (RFC 6901); undefined when there is none. */
export function atPointer(document: unknown, pointer: string): unknown {
  return pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce<unknown>(
      (at, part) =>
        typeof at === "object" && at !== null && Object.hasOwn(at, part)
          ? (at as Record<string, unknown>)[part]
          : undefined,
      document,
    );
}
