import * as z from "zod";
import { parseObject, VaultError } from "../cloud-b-kv/requests.ts";
import { type Application, bad, type DirectoryState, GraphError, type Group, type Principal } from "./graph-state.ts";
import type { Claims, Received } from "./login.ts";
import { isGuid, pageOf, readEquality, sameText } from "./odata.ts";

export const denied = () =>
  new GraphError(403, "Authorization_RequestDenied", "Insufficient privileges to complete the operation.");

export const notFound = (id: string) =>
  new GraphError(
    404,
    "Request_ResourceNotFound",
    `Resource '${id}' does not exist or one of its queried reference-property objects are not present.`,
  );

/** One authenticated request to Graph. Its methods throw `GraphError`. */
export class GraphCall {
  readonly state: DirectoryState;
  /** The address of the tenant's Graph, the base of links in answers and references in bodies. */
  readonly bases: readonly [string, ...string[]];
  readonly #claims: Claims;
  readonly #request: Received;
  readonly #query: URLSearchParams;
  /** The ids that the path names, in lower case. */
  readonly ids: readonly string[];

  constructor(
    state: DirectoryState,
    claims: Claims,
    request: Received,
    { ids, bases }: { ids: readonly string[]; bases: readonly [string, ...string[]] },
  ) {
    this.state = state;
    this.bases = bases;
    this.ids = ids.map((id) => id.toLowerCase());
    this.#claims = claims;
    this.#request = request;
    this.#query = new URL(request.target, "http://graph").searchParams;
    const malformed = this.ids.find((id) => !isGuid(id));
    if (malformed !== undefined) throw bad(`Invalid object identifier '${malformed}'.`);
  }

  /** The principal that asks. */
  get caller(): string {
    return this.#claims.oid;
  }

  /** Refuses a caller without any of these application permissions. */
  require(...permissions: string[]): void {
    if (!permissions.some((permission) => this.has(permission))) throw denied();
  }

  has(permission: string): boolean {
    return this.#claims.roles?.includes(permission) ?? false;
  }

  /** Application.ReadWrite.OwnedBy covers the caller's own objects, Application.ReadWrite.All all objects. */
  requireOwner({ owners }: { owners: Set<string> }): void {
    if (!this.has("Application.ReadWrite.All") && !owners.has(this.caller)) throw denied();
  }

  application(id = this.ids[0] ?? ""): Application {
    const application = this.state.applications.get(id);
    if (application === undefined || application.deleted || this.state.unseen.hides("application", id)) {
      throw notFound(id);
    }
    return application;
  }

  principal(id = this.ids[0] ?? ""): Principal {
    const principal = this.state.principals.get(id);
    if (principal === undefined || principal.deleted || this.state.unseen.hides("principal", id)) throw notFound(id);
    return principal;
  }

  group(): Group {
    const group = this.state.groups.get(this.ids[0] ?? "");
    if (group === undefined) throw notFound(this.ids[0] ?? "");
    return group;
  }

  deletedItem(): Application | Principal {
    const [id = ""] = this.ids;
    const item = this.state.applications.get(id) ?? this.state.principals.get(id);
    if (!item?.deleted || this.state.unseen.hides("deletedItem", id)) throw notFound(id);
    return item;
  }

  body<T>(schema: z.ZodType<T>): T {
    if (!/^application\/json(; ?charset=utf-8)?$/i.test(this.#request.headers["content-type"] ?? "")) {
      throw new GraphError(415, "UnsupportedMediaType", "The content type must be application/json.");
    }
    const parsed = schema.safeParse(readObject(this.#request.body));
    if (parsed.success) return parsed.data;
    const [issue] = parsed.error.issues;
    const names = issue?.code === "unrecognized_keys" ? issue.keys : (issue?.path ?? []).map(String);
    throw bad(`Invalid property '${names.join(".")}': ${issue?.message}`);
  }

  noBody(): void {
    if (this.#request.body.length > 0) throw bad("A body is not expected.");
  }

  /** Refuses query options other than these. */
  options(...allowed: string[]): void {
    const other = [...this.#query.keys()].find((name) => !allowed.includes(name));
    if (other !== undefined) throw bad(`Unrecognized query option '${other}'.`);
    if (new Set(this.#query.keys()).size < this.#query.size) throw bad("Query options must be specified only once.");
  }

  /** One object of the answer, with the fields that `$select` names. */
  selected(object: Record<string, unknown>): Record<string, unknown> {
    const select = this.#query.get("$select");
    if (select === null) return object;
    const chosen = select.split(",").map((field) => {
      if (!Object.hasOwn(object, field)) throw bad(`Could not find a property named '${field}'.`);
      return [field, object[field]] as const;
    });
    return Object.fromEntries(chosen);
  }

  /** One page of a list that `$filter` may narrow by one of these fields. */
  list(all: readonly Record<string, unknown>[], filterable: readonly string[]): Record<string, unknown> {
    this.noBody();
    this.options("$filter", "$select", "$top", "$skiptoken");
    const filter = this.#query.get("$filter");
    const equality = filter === null ? null : readEquality(filter);
    if (filter !== null && (equality === null || !filterable.includes(equality.field))) {
      throw new GraphError(400, "BadRequest", "Invalid filter clause: it is not one of this double's.");
    }
    const top = this.#query.get("$top") ?? "";
    if (top !== "" && !/^[1-9]\d{0,2}$/.test(top)) throw bad("Invalid value for $top.");
    const size = Math.min(Number(top) || 999, this.state.options.pageSize ?? 100);
    const token = this.#query.get("$skiptoken");
    const wanted = (one: Record<string, unknown>) =>
      equality === null || sameText(String(one[equality.field]), equality.text);
    const page = pageOf(all, { size, token, wanted });
    if (page === null)
      throw new GraphError(400, "Directory_ExpiredPageToken", "The specified page token value is invalid.");
    return {
      "@odata.context": `${this.bases[0]}/v1.0/$metadata`,
      ...(page.next !== null && { "@odata.nextLink": this.#link(page.next) }),
      value: page.items.map((one) => this.selected(one)),
    };
  }

  #link(token: string): string {
    const query = new URLSearchParams(this.#query);
    query.set("$skiptoken", token);
    return `${this.bases[0]}${this.#request.target.split("?")[0]}?${query}`;
  }
}

function readObject(body: Buffer): unknown {
  try {
    return parseObject(body);
  } catch (problem) {
    if (problem instanceof VaultError) throw bad("Unable to read JSON request payload.");
    throw problem;
  }
}

const Time = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,7})?Z$/)
  .transform((text) => Date.parse(text));

const Guid = z.string().refine(isGuid, "Cannot convert the literal to the expected type 'Edm.Guid'.");

const Tags = z
  .array(z.string().min(1).max(256).regex(/^\S+$/, "no white space is allowed"))
  .refine((tags) => new Set(tags).size === tags.length, "no duplicates are allowed");

const audiences = ["AzureADMyOrg", "AzureADMultipleOrgs", "AzureADandPersonalMicrosoftAccount"];

const properties = {
  displayName: z.string().min(1).max(256),
  tags: Tags.optional(),
  signInAudience: z.enum([...audiences, "PersonalMicrosoftAccount"]).optional(),
};

/** The bodies of requests: exactly these fields. */
export const bodies = {
  application: z.strictObject(properties),
  changedApplication: z.strictObject({ ...properties, displayName: properties.displayName.optional() }),
  principal: z.strictObject({ appId: Guid }),
  newPassword: z.strictObject({
    passwordCredential: z
      .strictObject({ displayName: z.string().max(90), startDateTime: Time, endDateTime: Time })
      .partial()
      .optional(),
  }),
  keyId: z.strictObject({ keyId: Guid }),
  reference: z.strictObject({ "@odata.id": z.string() }),
};
