import type * as z from "zod";
import type { Example, Examples } from "./example.ts";
import type { JsonSchema } from "./json-schema.ts";

/** Description of a route beyond its definition. `document.ts` combines both. */
export interface Operation {
  /** Stable: client generators derive function names from it. */
  readonly id: string;
  /** One line. */
  readonly summary: string;
  readonly description?: string;
  /** The required right. Routes of the secrets API derive it from verb and path. */
  readonly right?: string;
  /** Descriptions of path parameters that the group does not describe. */
  readonly path?: Texts;
  readonly query?: QueryParameters;
  readonly headers?: Parameters;
  /** Writes are documented as POST, except those with PUT; the service accepts both. */
  readonly method?: "put";
  readonly body?: Body;
  /** Absent: the names for a LIST, no content for a write. */
  readonly answers?: Answers;
  readonly example?: Example;
  /** Error statuses beyond those of every operation of its kind. */
  readonly errors?: readonly number[];
}

type Texts = Readonly<Record<string, string>>;

/** Operations by verb and path of their route, `GET /jobs`; paths of mounts begin with the default mount. */
export interface Group {
  readonly tag: string;
  readonly operations: Readonly<Record<string, Operation>>;
}

/**
 * @param path descriptions of path parameters of the group
 * @throws Error for an example without an operation
 */
export function group(
  tag: string,
  path: Texts,
  operations: Readonly<Record<string, Operation>>,
  examples: Examples = {},
): Group {
  const extra = Object.keys(examples).find((key) => !(key in operations));
  if (extra !== undefined) throw new Error(`there is no operation ${extra}, which has an example`);
  const named = Object.entries(operations).map(([key, operation]) => {
    const example = examples[key];
    return [key, { ...operation, path: { ...path, ...operation.path }, ...(example && { example }) }] as const;
  });
  return { tag, operations: Object.fromEntries(named) };
}

export interface Parameter {
  readonly description: string;
  readonly schema: JsonSchema;
  readonly required?: true;
}
export type Parameters = Readonly<Record<string, Parameter>>;
/** A text describes a parameter of the schema `query` of the route. */
export type QueryParameters = Readonly<Record<string, Parameter | string>>;

export const text = (description: string): Parameter => ({ description, schema: { type: "string" } });
export const word = (description: string, ...words: string[]): Parameter => ({
  description,
  schema: { type: "string", enum: words },
});
export const flag = (description: string): Parameter => ({ description, schema: { type: "boolean", default: false } });
export const count = (description: string, least = 0): Parameter => ({
  description,
  schema: { type: "integer", minimum: least },
});
export const required = (parameter: Parameter): Parameter => ({ ...parameter, required: true });

export interface Body {
  /** Replaces the route's schema where the handler parses further. */
  readonly schema?: z.ZodType | JsonSchema;
  /** Descriptions or schemas of fields that the route's schema lacks. */
  readonly fields?: Readonly<Record<string, string | JsonSchema>>;
  readonly required?: readonly string[];
  /** Media types beside JSON. */
  readonly types?: readonly string[];
}

/** Success responses by status. */
export type Answers = Readonly<Record<number, Answer>>;

/** A success response. */
export type Answer =
  | { readonly kind: "empty"; readonly description: string }
  | {
      readonly kind: "json";
      readonly description: string;
      readonly schema: z.ZodType;
      readonly headers?: "cluster";
      /** Media types of the same content as text. */
      readonly texts?: readonly string[];
    }
  | { readonly kind: "text"; readonly description: string; readonly type: string }
  | { readonly kind: "envelope"; readonly description: string; readonly parts: EnvelopeParts }
  | {
      /** The connection becomes a WebSocket. */
      readonly kind: "socket";
      readonly description: string;
      /** The subprotocol; absent for none. */
      readonly protocol?: string;
      /** One message of the service, and one of the client: JSON text. A client may have nothing to say. */
      readonly sends: z.ZodType;
      readonly takes?: z.ZodType;
    }
  | {
      readonly kind: "stream";
      readonly description: string;
      /** Schema of one line. */
      readonly schema: z.ZodType;
      /** The lines come as server-sent events only. */
      readonly serverSent?: true;
    };

/** The non-null parts of the secrets API envelope. */
export interface EnvelopeParts {
  readonly data?: z.ZodType;
  readonly auth?: z.ZodType;
  /** The members of `data` are repeated at the top level. */
  readonly flat?: true;
  /** Or the shape of an error. */
  readonly orErrors?: true;
}

const DONE = "No content.";

/** 204 of the secrets API. */
export const noContent = { 204: { kind: "empty", description: DONE } } as const;
/** 200 of the cluster API without a body. */
export const nothing = { 200: { kind: "empty", description: DONE } } as const;
/** The envelope of the secrets API. */
export const data = (description: string, schema: z.ZodType, more: Omit<EnvelopeParts, "data"> = {}) => ({
  200: { kind: "envelope", description, parts: { ...more, data: schema } } as const,
});
/** The envelope without data, for warnings. */
export const warned = (description: string, status = 200): Answers => ({
  [status]: { kind: "envelope", description, parts: {} },
});
/** Bare JSON without the headers of the cluster API. */
export const plain = (description: string, schema: z.ZodType, status = 200): Answers => ({
  [status]: { kind: "json", description, schema },
});
/** Bare JSON of the cluster API. */
export const bare = (description: string, schema: z.ZodType): Answers => ({
  200: { kind: "json", description, schema, headers: "cluster" },
});
