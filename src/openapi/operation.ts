import type * as z from "zod";
import type { JsonSchema } from "./json-schema.ts";

/** What a caller should know of a route beyond what the route says itself. `document.ts` puts both together. */
export interface Operation {
  /** Stable: generators of clients name functions by it. */
  readonly id: string;
  /** One line. */
  readonly summary: string;
  readonly description?: string;
  /** What the caller must be allowed. Routes of the secrets API say it by their verb and path. */
  readonly right?: string;
  /** What the parameters in the path mean, where the group does not say it. */
  readonly path?: Texts;
  readonly query?: Parameters;
  readonly headers?: Parameters;
  /** Writes are POST unless the interface document says PUT; the service takes either. */
  readonly method?: "put";
  readonly body?: Body;
  /** By status. */
  readonly answers: Readonly<Record<number, Answer>>;
  /** Statuses of refusals beyond those that every operation of its kind may answer. */
  readonly errors?: readonly number[];
}

export type Texts = Readonly<Record<string, string>>;

/** Operations by verb and path as their route has them, `GET /jobs`; paths of mounts begin with the default mount. */
export interface Group {
  readonly tag: string;
  readonly operations: Readonly<Record<string, Operation>>;
}

/** @param path what parameters in the paths of the whole group mean */
export function group(tag: string, path: Texts, operations: Readonly<Record<string, Operation>>): Group {
  const named = Object.entries(operations).map(
    ([key, operation]) => [key, { ...operation, path: { ...path, ...operation.path } }] as const,
  );
  return { tag, operations: Object.fromEntries(named) };
}

export interface Parameter {
  readonly description: string;
  readonly schema: JsonSchema;
  readonly required?: true;
}
export type Parameters = Readonly<Record<string, Parameter>>;

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
  /** Where the route's own schema says too little, because its handler reads on. */
  readonly schema?: z.ZodType | JsonSchema;
  /** What fields mean, or their schema, where the route's own does not say it. */
  readonly fields?: Readonly<Record<string, string | JsonSchema>>;
  readonly required?: readonly string[];
  /** Media types beside JSON. */
  readonly types?: readonly string[];
}

/** What a success is. */
export type Answer =
  | { readonly kind: "empty"; readonly description: string }
  | {
      readonly kind: "json";
      readonly description: string;
      readonly schema: z.ZodType;
      readonly headers?: "cluster";
      /** Media types in which the same comes as text. */
      readonly texts?: readonly string[];
    }
  | { readonly kind: "text"; readonly description: string; readonly type: string }
  | { readonly kind: "envelope"; readonly description: string; readonly parts: EnvelopeParts }
  | {
      /** The connection is a WebSocket from here on. */
      readonly kind: "socket";
      readonly description: string;
      readonly protocol: string;
      /** One message of the service, and one of the client: JSON as text. */
      readonly sends: z.ZodType;
      readonly takes: z.ZodType;
    }
  | {
      readonly kind: "stream";
      readonly description: string;
      /** Of one line. */
      readonly schema: z.ZodType;
    };

/** What of the envelope of the secrets API is not null. */
export interface EnvelopeParts {
  readonly data?: z.ZodType;
  readonly auth?: z.ZodType;
  /** The members of `data` stand beside it, too. */
  readonly flat?: true;
  /** Or the shape of a refusal. */
  readonly orErrors?: true;
}

const DONE = "Done; there is nothing to say.";

/** 204 of the secrets API. */
export const noContent = { 204: { kind: "empty", description: DONE } } as const;
/** 200 of the cluster API without a body. */
export const nothing = { 200: { kind: "empty", description: DONE } } as const;
/** The envelope of the secrets API. */
export const data = (description: string, schema: z.ZodType, more: Omit<EnvelopeParts, "data"> = {}) => ({
  200: { kind: "envelope", description, parts: { ...more, data: schema } } as const,
});
/** The envelope without data: what it says are its warnings. */
export const warned = (description: string, status = 200): Readonly<Record<number, Answer>> => ({
  [status]: { kind: "envelope", description, parts: {} },
});
/** Bare JSON without the headers of the cluster API. */
export const plain = (description: string, schema: z.ZodType, status = 200): Readonly<Record<number, Answer>> => ({
  [status]: { kind: "json", description, schema },
});
/** Bare JSON of the cluster API. */
export const bare = (description: string, schema: z.ZodType): Readonly<Record<number, Answer>> => ({
  200: { kind: "json", description, schema, headers: "cluster" },
});
