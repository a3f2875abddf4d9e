import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";

/** A request and its answer, as a test saw them. */
export interface Exchange {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** The request's body as text; empty without one. */
  readonly sent: string;
  readonly status: number;
  readonly type: string | null;
  readonly text: string;
  /** The answer's headers, by names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** The names of query parameters that the service has looked at, and of those that it looks at though they may change nothing. */
  readonly asked: readonly string[];
  readonly glanced: readonly string[];
  /** Frames received over the WebSocket. */
  readonly frames?: readonly string[];
}

interface MediaType {
  readonly schema: object;
  readonly example?: unknown;
  readonly "x-sallyport-framing"?: string;
}

interface Header {
  readonly $ref?: string;
  readonly required?: boolean;
  readonly schema?: { readonly type?: string };
}

interface Content {
  readonly $ref?: string;
  readonly headers?: Readonly<Record<string, Header>>;
  readonly "x-sallyport-frames"?: { readonly sent: object };
  readonly content?: Readonly<Record<string, MediaType>>;
}

interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly parameters: readonly { readonly name?: string; readonly in?: string; readonly $ref?: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, MediaType>> };
  readonly responses: Readonly<Record<string, Content>>;
}

export interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: Readonly<Record<string, Readonly<Record<string, object>>>>;
}

interface Known {
  readonly operation: Operation;
  readonly method: string;
  readonly pattern: RegExp;
  /** Higher is more exact: of two patterns that match, the one with more written out. */
  readonly exactness: number;
}

/** Holds real answers against the document: status, media type and body, with nothing in it that the document does not know. */
export class Checker {
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false });
  readonly #validators = new Map<object, ValidateFunction>();
  readonly #document: OpenApiDocument;
  readonly #operations: readonly Known[];
  /** Query parameters that were looked at, by operation. */
  readonly #asked = new Map<string, Set<string>>();
  /** Operations of which a success was seen and fits. */
  readonly #proven = new Set<string>();

  constructor(document: OpenApiDocument) {
    this.#document = document;
    // So that references inside schemas, which begin at the document's root, are found.
    this.#ajv.addSchema({ $id: "doc:", components: document.components });
    this.#operations = Object.entries(document.paths)
      .flatMap(([path, item]) =>
        Object.entries(item).map(([method, operation]): Known => {
          const greedy = this.#greedyIn(operation);
          const source = path.replace(/\{(\w+)\}/g, (_whole, name: string) => (greedy.has(name) ? "(.+)" : "([^/]+)"));
          return {
            operation,
            method,
            pattern: new RegExp(`^${source}$`),
            exactness: path.replace(/\{\w+\}/g, "").length,
          };
        }),
      )
      .sort((a, b) => b.exactness - a.exactness);
  }

  /** Operations with one of these tags of which no success was seen yet. */
  unproven(tags: readonly string[]): string[] {
    const ofTags = this.#operations.filter(({ operation }) => tags.includes(operation.tags[0] ?? ""));
    return ofTags
      .map(({ operation }) => operation.operationId)
      .filter((id) => !this.#proven.has(id))
      .sort();
  }

  /** Query parameters that the document describes for operations with these tags, and no code has read. */
  unasked(tags: readonly string[]): string[] {
    const ofTags = this.#operations.filter(({ operation }) => tags.includes(operation.tags[0] ?? ""));
    return ofTags
      .flatMap(({ operation }) => {
        const asked = this.#asked.get(operation.operationId);
        return this.#queryOf(operation)
          .filter((name) => !asked?.has(name))
          .map((name) => `${operation.operationId}: ${name}`);
      })
      .sort();
  }

  /** The operation that a request is, or null for a path that has none. */
  operationOf(method: string, path: string): Operation | null {
    const url = new URL(path, "https://x");
    const isList = ["list", "scan"].some((flag) => /^(1|t|true)$/i.test(url.searchParams.get(flag) ?? ""));
    const names = method === "POST" || method === "PUT" ? ["post", "put"] : [method.toLowerCase()];
    const asked = isList ? `${url.pathname.replace(/\/$/, "")}/` : url.pathname.replace(/(?<=.)\/$/, "");
    const found = this.#operations.find(
      (known) => names.includes(known.method) && known.pattern.test(asked) && isList === isListing(known),
    );
    return found?.operation ?? null;
  }

  /** Parts of an exchange that the document does not describe; empty when it conforms. */
  check({ method, path, sent, status, type, text, headers, asked, glanced, frames = [] }: Exchange): string[] {
    const operation = this.operationOf(method, path);
    if (!operation) return [`${method} ${path}: is no operation`];
    const where = `${operation.operationId} (${method} ${path}) ${status}`;
    const answer = this.#resolved(operation.responses[status]);
    if (!answer) return [`${where}: the status is not described`];
    const problems = [
      ...this.#checkBody(answer, type, text),
      ...this.#checkHeaders(answer, headers),
      ...this.#checkAsked(operation, asked, glanced),
      ...frames.flatMap((frame) => this.#faults(answer["x-sallyport-frames"]?.sent ?? NOTHING, JSON.parse(frame))),
      ...(status < 300 ? this.#checkSent(operation, sent) : []),
    ];
    if (problems.length === 0 && status < 300) this.#proven.add(operation.operationId);
    return problems.map((problem) => `${where}: ${problem}`);
  }

  /** Each example that does not fit the schema beside it. */
  checkExamples(): string[] {
    return this.#operations.flatMap(({ operation }) => {
      const answers = Object.entries(operation.responses).map(
        ([status, answer]) => [status, this.#resolved(answer)?.content] as const,
      );
      const all = [["request", operation.requestBody?.content] as const, ...answers];
      return all.flatMap(([what, content = {}]) =>
        Object.values(content).flatMap((media) =>
          media.example === undefined
            ? []
            : this.#faults(media.schema, media.example).map((fault) => `${operation.operationId} ${what}: ${fault}`),
        ),
      );
    });
  }

  #checkBody({ content }: Content, type: string | null, text: string): string[] {
    if (!content) return text === "" ? [] : [`has a body: ${text.slice(0, 80)}`];
    const [name = ""] = (type ?? "").split(";");
    const media = content[name];
    if (!media) return [`the media type ${name} is not described`];
    if (media["x-sallyport-framing"]) return bodiesOf(name, text).flatMap((line) => this.#faults(media.schema, line));
    const value: unknown = name.endsWith("json") ? JSON.parse(text) : text;
    return this.#faults(media.schema, value);
  }

  #checkHeaders({ headers: described = {} }: Content, headers: Exchange["headers"]): string[] {
    return Object.entries(described).flatMap(([name, given]) => {
      const { required, schema = {} } = this.#shared<Header>("headers", given);
      const value = headers[name.toLowerCase()];
      if (value === undefined) return required ? [`lacks the header ${name}`] : [];
      return this.#faults(schema, schema.type === "integer" ? Number(value) : value).map((fault) => `${name}${fault}`);
    });
  }

  #checkAsked(operation: Operation, asked: readonly string[], glanced: readonly string[]): string[] {
    const known = this.#asked.get(operation.operationId) ?? new Set();
    this.#asked.set(operation.operationId, known);
    for (const name of [...asked, ...glanced]) known.add(name);
    const described = this.#queryOf(operation);
    return asked.filter((name) => !described.includes(name)).map((name) => `?${name} is not described`);
  }

  #queryOf({ parameters }: Operation): string[] {
    const all = parameters.map((parameter) => this.#shared("parameters", parameter));
    return all.filter((each) => each.in === "query").map(({ name = "" }) => name);
  }

  /** The inline object, or the one that its `$ref` names under `components`. */
  #shared<T extends { readonly $ref?: string }>(kind: string, given: T): T {
    const name = given.$ref?.split("/").at(-1);
    return name === undefined ? given : (this.#document.components[kind]?.[name] as T);
  }

  #checkSent({ requestBody }: Operation, sent: string): string[] {
    if (sent === "") return [];
    if (!requestBody) return ["a body was sent, which is not described"];
    const [media] = Object.values(requestBody.content);
    return media && /^\s*\{/.test(sent)
      ? this.#faults(media.schema, JSON.parse(sent)).map((fault) => `request${fault}`)
      : [];
  }

  #faults(schema: object, value: unknown): string[] {
    let validate = this.#validators.get(schema);
    if (!validate) {
      validate = this.#ajv.compile(absolute(schema));
      this.#validators.set(schema, validate);
    }
    if (validate(value)) return [];
    return (validate.errors ?? []).slice(0, 5).map(({ instancePath, message, params }) => {
      const named = Object.values(params).filter((param) => typeof param === "string");
      return `${instancePath} ${message} ${named.join(" ")}`;
    });
  }

  /** The parameters that may hold slashes. */
  #greedyIn({ parameters }: Operation): Set<string | undefined> {
    const all = parameters.map((parameter) => this.#shared("parameters", parameter));
    return new Set(all.filter((each) => "x-sallyport-slashes" in each).map((each) => (each as { name?: string }).name));
  }

  #resolved(answer: Content | undefined): Content | undefined {
    return answer && this.#shared("responses", answer);
  }
}

/** The schema of what must not be. */
const NOTHING = { not: {} };

const isListing = ({ pattern, method }: Known): boolean => method === "get" && pattern.source.endsWith("\\/$");

/** The values of a stream: of each line, or of the data of each event. */
function bodiesOf(type: string, text: string): unknown[] {
  const lines = text.split("\n").filter((line) => line !== "");
  const written =
    type === "text/event-stream"
      ? lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6))
      : lines;
  return written.map((line) => JSON.parse(line) as unknown);
}

const absolute = (schema: object): object =>
  JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"doc:#/')) as object;
