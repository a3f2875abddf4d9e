import { ok, type Result, refuse } from "../../../lib/result.ts";
import { RELEASE } from "../../../platform/version.ts";
import { filled, onlyPlaceholder } from "../../../providers/http-templates.ts";
import type { Account, Captured, Vars } from "./cloud.ts";
import type { Call } from "./document.ts";

/** Values of placeholders, by their whole names. */
export type Values = Readonly<Record<string, string | number | boolean>>;

export const under = (prefix: string, values: Captured): Values =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [`${prefix}.${name}`, value]));

/** @param vars of the role */
export const ownValues = ({ secrets }: Account, vars: Vars): Values => ({
  ...varValues(vars),
  ...under("secrets", secrets),
});

/** Each variable, and as an identifier of SQL: `varsOf` refuses other characters. */
export const varValues = (vars: Vars): Values => ({
  ...under("vars", vars),
  ...Object.fromEntries(Object.entries(vars).map(([name, value]) => [`vars.${name}.sql`, value.replaceAll(/\W/g, "")])),
});

export const markerValues = (marker: string): Values => ({ marker, "marker.sql": marker.replaceAll("-", "_") });

const DAY_MS = 86_400_000;

/** The end of an object, at least `expires`: a date is the first day that begins after it. */
export function lifeValues(expires: number, now: number): Values {
  return {
    "ttl.days": Math.max(1, Math.ceil((expires - now) / DAY_MS)),
    ttl: Math.max(1, Math.ceil((expires - now) / 1000)),
    "expires_at.iso": `${new Date(Math.ceil(expires / 1000) * 1000).toISOString().slice(0, 19)}Z`,
    "expires_at.date": new Date(Math.ceil(expires / DAY_MS) * DAY_MS).toISOString().slice(0, 10),
    "expires_at.unix": Math.ceil(expires / 1000),
  };
}

/** A value that does not fit its place. Thrown within `rendered` only; the message never has a value. */
class Unfit extends Error {}

/** The result of `render`, or the refusal of a value that does not fit its place. */
export function rendered<T>(render: () => T): Result<T> {
  try {
    return ok(render());
  } catch (failure) {
    if (failure instanceof Unfit) return refuse("invalid", failure.message);
    throw failure;
  }
}

/** @throws Unfit for a name without a value, as that of a lease of an earlier definition */
function valueFor(values: Values, field: string): string | number | boolean {
  const value = Object.hasOwn(values, field) ? values[field] : undefined;
  if (value === undefined) throw new Unfit(`no value for {{${field}}}`);
  return value;
}

/** @throws Unfit */
export const textOf = (template: string, values: Values): string =>
  filled(template, (field) => String(valueFor(values, field)));

/** JSON with each text filled; one that is a single placeholder has the type of its value. */
function jsonOf(value: unknown, values: Values): unknown {
  if (typeof value === "string") {
    const field = onlyPlaceholder(value);
    return field === null ? textOf(value, values) : valueFor(values, field);
  }
  if (Array.isArray(value)) return value.map((each) => jsonOf(each, values));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, inside]) => [name, jsonOf(inside, values)]));
}

/** @throws Unfit */
export function percentEncoded(text: string): string {
  if (!text.isWellFormed()) throw new Unfit("a value is not valid Unicode");
  return encodeURIComponent(text);
}

const encoded = (template: string, values: Values): string =>
  filled(template, (field) => percentEncoded(String(valueFor(values, field))));

export interface Rendered {
  readonly url: string;
  /** Without that of the engine's login. */
  readonly headers: Readonly<Record<string, string>>;
  /** Absent: no body. */
  readonly body?: string;
}

interface RenderedCall {
  /** Headers of the definition. */
  readonly common?: Readonly<Record<string, string>> | null | undefined;
  /** Further parameters of the query. */
  readonly more?: Readonly<Record<string, string>>;
  /**
   * Whether headers lose characters other than printable ASCII instead of being refused: calls about an object that was
   * made with such values go on.
   */
  readonly dropsOthers?: boolean;
}

/** The request of a call. @throws Unfit, also for a value that would change the path, as dots alone do */
export function requestOf(
  base: string,
  call: Call,
  values: Values,
  { common, more = {}, dropsOthers = false }: RenderedCall = {},
): Rendered {
  const query = new URLSearchParams();
  for (const [name, template] of Object.entries(call.query ?? {})) query.set(name, textOf(template, values));
  for (const [name, value] of Object.entries(more)) query.set(name, value);
  const path = base + encoded(call.path, values);
  const url = URL.parse(path);
  if (url === null || `${url.origin}${url.pathname}` !== path)
    throw new Unfit("a value would change the path of the URL");
  const text = query.toString();
  const form =
    call.form &&
    new URLSearchParams(
      Object.fromEntries(Object.entries(call.form).map(([name, each]) => [name, textOf(each, values)])),
    );
  const body = form?.toString() ?? (call.json === undefined ? undefined : JSON.stringify(jsonOf(call.json, values)));
  return {
    url: text === "" ? path : `${path}?${text}`,
    headers: {
      accept: "application/json",
      // Some providers refuse a call without a client's name, and Workers send none by themselves.
      "user-agent": `sallyport/${RELEASE}`,
      ...headersOf(common, values, dropsOthers),
      ...headersOf(call.headers, values, dropsOthers),
      ...(body !== undefined && { "content-type": form ? "application/x-www-form-urlencoded" : "application/json" }),
    },
    ...(body !== undefined && { body }),
  };
}

const headersOf = (templates: RenderedCall["common"], values: Values, dropsOthers: boolean): Record<string, string> =>
  Object.fromEntries(
    Object.entries(templates ?? {}).map(([name, text]) => [
      name.toLowerCase(),
      headerValue(name, textOf(text, values), dropsOthers),
    ]),
  );

/** A value never adds a header. Space around it does not count, as in HTTP. @throws Unfit */
function headerValue(name: string, text: string, dropsOthers: boolean): string {
  const value = text.replaceAll(/^[\t\n\r ]+|[\t\n\r ]+$/g, "");
  if (dropsOthers) return value.replaceAll(/[^\x20-\x7e]/g, "");
  if (!/^[\x20-\x7e]*$/.test(value)) throw new Unfit(`the header ${name} would have other characters than ASCII`);
  return value;
}
