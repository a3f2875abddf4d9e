import * as z from "zod";
import { metadataPairs } from "../auth/metadata-pairs.ts";
import type {
  AliasRecord,
  EntityRecord,
  GroupRecord,
  IdentityKey,
  IdentityKind,
  IdentityQuery,
} from "../contracts/identity.ts";
import { badRequest, notFound, unwrap } from "../platform/http/errors.ts";
import { flag, stringList } from "../platform/http/fields.ts";
import { comparedPolicies } from "../rights/policy-names.ts";
import { accessControl } from "../rpc/stubs.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type AuthorisedCall, type SecretsRoute, secrets } from "./server/route.ts";

/** Entities, groups and their aliases (https://openbao.org/api-docs/secret/identity/). */

const MAX_LISTED = 1_000;

const PRINTABLE = /^[^\p{Cc}]+$/u;
const name = () => z.string().max(512).regex(PRINTABLE, "must not be empty or hold control characters");
const id = () => z.uuid("must be an id");
/** An empty text is an absent field, as upstream. */
const orEmpty = <Schema extends z.ZodType>(schema: Schema) =>
  z.preprocess((given) => (given === "" ? undefined : given), schema.optional());
const policies = () =>
  stringList()
    .pipe(z.array(z.string().min(1).max(128)).max(256))
    .transform(comparedPolicies)
    .refine((names) => !names.includes("root"), "must not contain root")
    .nullish();
const ids = () => stringList().pipe(z.array(id()).max(MAX_LISTED)).nullish();

const entityFields = { policies: policies(), metadata: metadataPairs(), disabled: flag().optional() };
const groupFields = {
  type: orEmpty(z.enum(["internal", "external"])),
  policies: policies(),
  metadata: metadataPairs(),
  member_entity_ids: ids(),
  member_group_ids: ids(),
};

/** Bodies by the path of the request: a path with the name takes no other name. */
const bodiesOf = (fields: z.ZodRawShape) => ({
  any: z.object({ id: orEmpty(id()), name: orEmpty(name()), ...fields }),
  id: z.object({ name: orEmpty(name()), ...fields }),
  name: z.object(fields),
});
const BODIES = { entity: bodiesOf(entityFields), group: bodiesOf(groupFields) };
const changedAlias = z.object({
  name: orEmpty(name()),
  mount_accessor: orEmpty(z.string().max(128)),
  canonical_id: orEmpty(id()),
});
const CHANGED_ALIAS_BODIES = {
  entity: changedAlias.extend({
    custom_metadata: metadataPairs(),
    external_id: orEmpty(name()),
    issuer: orEmpty(name()),
  }),
  group: changedAlias,
} as const;
/** A new alias needs its name and auth method; one that the body's id names keeps what is absent. */
function whole(body: z.infer<typeof changedAlias> & { id?: string | undefined }, context: z.RefinementCtx) {
  if (body.id !== undefined) return;
  for (const field of ["name", "mount_accessor"] as const) {
    if (body[field] === undefined) context.addIssue({ code: "custom", path: [field], message: "is required" });
  }
}
const ALIAS_BODIES = {
  entity: CHANGED_ALIAS_BODIES.entity.extend({ id: orEmpty(id()) }).superRefine(whole),
  group: CHANGED_ALIAS_BODIES.group.extend({ id: orEmpty(id()) }).superRefine(whole),
} as const;

const iso = (ms: number): string => new Date(ms).toISOString();
const orNull = (map: Readonly<Record<string, string>>) => (Object.keys(map).length > 0 ? map : null);

/** Upstream's clients tell a group without members by `null`. */
const orNullIfEmpty = (members: readonly string[]) => (members.length > 0 ? members : null);

const aliasData = (alias: AliasRecord) => ({
  id: alias.id,
  canonical_id: alias.canonical,
  name: alias.name,
  mount_accessor: alias.accessor,
  mount_path: alias.mountPath,
  mount_type: alias.mountType,
  metadata: orNull(alias.metadata),
  custom_metadata: alias.customMetadata,
  ...(alias.externalId && { external_id: alias.externalId }),
  ...(alias.issuer && { issuer: alias.issuer }),
  local: false,
  merged_from_canonical_ids: alias.mergedFrom.length > 0 ? alias.mergedFrom : null,
  creation_time: iso(alias.created),
  last_update_time: iso(alias.updated),
});

const shared = (record: EntityRecord | GroupRecord, namespaceId: string) => ({
  id: record.id,
  name: record.name,
  policies: record.policies,
  metadata: orNull(record.metadata),
  creation_time: iso(record.created),
  last_update_time: iso(record.updated),
  namespace_id: namespaceId,
});

const entityData = (entity: EntityRecord, namespaceId: string) => ({
  ...shared(entity, namespaceId),
  aliases: entity.aliases.map(aliasData),
  disabled: entity.disabled,
  direct_group_ids: entity.directGroups,
  inherited_group_ids: entity.inheritedGroups,
  group_ids: [...entity.directGroups, ...entity.inheritedGroups],
  merged_entity_ids: entity.merged.length > 0 ? entity.merged : null,
});

const groupData = (group: GroupRecord, namespaceId: string) => ({
  ...shared(group, namespaceId),
  type: group.type,
  alias: group.aliases[0] ? aliasData(group.aliases[0]) : {},
  member_entity_ids: orNullIfEmpty(group.entities),
  member_group_ids: orNullIfEmpty(group.groups),
  parent_group_ids: group.parents,
});

/** The key in the path. @throws RequestError 400 for a name that no entity or group may have */
function keyIn({ params }: AuthorisedCall<never, "identity" | "name">): IdentityKey {
  if (params.identity !== undefined) return { by: "id", value: params.identity };
  const named = name().safeParse(params.name);
  if (named.success) return { by: "name", value: named.data };
  throw badRequest("name: must be 1 to 512 characters without control characters");
}

/** The answer with an entity or a group; null when there is none. */
export async function shownIdentity(
  call: AuthorisedCall,
  kind: IdentityKind,
  query: IdentityQuery,
): Promise<Response | null> {
  const { namespace, namespaceId } = call.grant;
  const access = accessControl(call.env);
  const entity = kind === "entity" ? await access.readEntity(namespace, query) : null;
  const group = kind === "group" ? await access.readGroup(namespace, query) : null;
  const data = entity ? entityData(entity, namespaceId) : group && groupData(group, namespaceId);
  return data && envelope(call, { data, mountType: "identity" });
}

async function read(call: AuthorisedCall, kind: IdentityKind, key: IdentityKey): Promise<Response> {
  const shown = await shownIdentity(call, kind, key);
  if (!shown) throw notFound();
  return shown;
}

async function write(call: AuthorisedCall, kind: IdentityKind, key: IdentityKey | null, body: object) {
  const { namespace } = call.grant;
  const access = accessControl(call.env);
  const written = unwrap(
    kind === "entity" ? await access.writeEntity(namespace, key, body) : await access.writeGroup(namespace, key, body),
  );
  if (!written.created) return noContent();
  const made = { id: written.id, name: written.name };
  return envelope(call, { data: kind === "entity" ? { ...made, aliases: null } : made, mountType: "identity" });
}

async function listed(call: AuthorisedCall, kind: IdentityKind, by: IdentityKey["by"]): Promise<Response> {
  const all = await accessControl(call.env).listIdentities(call.grant.namespace, kind);
  const info = Object.fromEntries(all.map((one) => [one.id, { name: one.name }]));
  const keys = all.map((one) => one[by]);
  return keyList(call, keys, by === "id" ? { key_info: info } : {}, "identity");
}

const keyed = (kind: IdentityKind, by: IdentityKey["by"]): SecretsRoute[] => {
  const path: string = `/identity/${kind}/${by}/:${by === "id" ? "identity" : "name"}`;
  return [
    secrets(`LIST /identity/${kind}/${by}`, { fresh: true }, (call) => listed(call, kind, by)),
    secrets(`GET ${path}`, { fresh: true }, (call) => read(call, kind, keyIn(call))),
    secrets(`POST ${path}`, { fresh: true, body: BODIES[kind][by] }, (call, body) =>
      write(call, kind, keyIn(call), body),
    ),
    secrets(`DELETE ${path}`, { fresh: true }, async (call) => {
      unwrap(await accessControl(call.env).deleteIdentity(call.grant.namespace, kind, keyIn(call)));
      return noContent();
    }),
  ];
};

const aliasRoutes = (kind: IdentityKind): SecretsRoute[] => [
  secrets(`POST /identity/${kind}-alias`, { fresh: true, body: ALIAS_BODIES[kind] }, async (call, body) => {
    const alias = unwrap(await accessControl(call.env).writeIdentityAlias(call.grant.namespace, kind, body));
    return envelope(call, { data: { id: alias.id, canonical_id: alias.canonical }, mountType: "identity" });
  }),
  secrets(
    `POST /identity/${kind}-alias/id/:identity`,
    { fresh: true, body: CHANGED_ALIAS_BODIES[kind] },
    async (call, body) => {
      const change = { ...body, id: call.params.identity };
      unwrap(await accessControl(call.env).writeIdentityAlias(call.grant.namespace, kind, change));
      return noContent();
    },
  ),
  secrets(`LIST /identity/${kind}-alias/id`, { fresh: true }, async (call) => {
    const all = await accessControl(call.env).listIdentityAliases(call.grant.namespace, kind);
    const info = Object.fromEntries(all.map((alias) => [alias.id, aliasData(alias)]));
    return keyList(call, Object.keys(info), { key_info: info }, "identity");
  }),
  secrets(`GET /identity/${kind}-alias/id/:identity`, { fresh: true }, async (call) => {
    const { identity } = call.params;
    const alias = await accessControl(call.env).readIdentityAlias(call.grant.namespace, kind, identity);
    if (!alias) throw notFound();
    return envelope(call, { data: aliasData(alias), mountType: "identity" });
  }),
  secrets(`DELETE /identity/${kind}-alias/id/:identity`, { fresh: true }, async (call) => {
    const { identity } = call.params;
    unwrap(await accessControl(call.env).deleteIdentityAlias(call.grant.namespace, kind, identity));
    return noContent();
  }),
];

const KINDS = ["entity", "group"] as const;

export const identityEntityRoutes = KINDS.flatMap((kind) => [
  secrets(`POST /identity/${kind}`, { fresh: true, body: BODIES[kind].any }, (call, body) =>
    write(call, kind, null, body),
  ),
  ...keyed(kind, "id"),
  ...keyed(kind, "name"),
  ...aliasRoutes(kind),
]);
