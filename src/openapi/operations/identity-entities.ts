import * as z from "zod";
import { keysOf, texts, time } from "../../wire/shapes.ts";
import { data, group, noContent, type Operation } from "../operation.ts";

const ids = z.array(z.string());

const Alias = z
  .object({
    id: z.string(),
    canonical_id: z.string(),
    name: z.string(),
    mount_accessor: z.string(),
    mount_path: z.string(),
    mount_type: z.string(),
    metadata: texts.nullable(),
    custom_metadata: texts,
    external_id: z.string().optional(),
    issuer: z.string().optional(),
    local: z.boolean(),
    merged_from_canonical_ids: ids.nullable(),
    creation_time: time,
    last_update_time: time,
  })
  .meta({ id: "IdentityAlias" });

const shared = {
  id: z.string(),
  name: z.string(),
  policies: ids,
  metadata: texts.nullable(),
  creation_time: time,
  last_update_time: time,
  namespace_id: z.string(),
};

const Entity = z
  .object({
    ...shared,
    aliases: z.array(Alias),
    disabled: z.boolean(),
    direct_group_ids: ids,
    inherited_group_ids: ids,
    group_ids: ids,
    merged_entity_ids: ids.nullable(),
  })
  .meta({ id: "Entity" });

const IdentityGroup = z
  .object({
    ...shared,
    type: z.string(),
    alias: z.union([Alias, z.object({})]),
    member_entity_ids: ids.nullable(),
    member_group_ids: ids.nullable(),
    parent_group_ids: ids,
  })
  .meta({ id: "IdentityGroup" });

const entityFields = {
  policies: "Policies of the entity's tokens, beside the tokens' own; never `root`.",
  metadata: "Text by name: at most 64.",
  disabled: "The tokens of a disabled entity are refused, and it cannot log in.",
};
const groupFields = {
  type: "`internal`: the members are set here; `external`: they follow the logins of the group's alias.",
  policies: "Policies of the members' tokens; never `root`.",
  metadata: "Text by name: at most 64.",
  member_entity_ids: "Entities in an internal group.",
  member_group_ids: "Groups in an internal group. A group cannot contain itself.",
};
const selected = { id: "Updates the object with this id.", name: "The name; unique in its namespace." };
const entityAliasFields = {
  custom_metadata: "Text by name: at most 64.",
  external_id: "The id at an external provider; stored and returned.",
  issuer: "That provider; stored and returned.",
};
const aliasFields = {
  name: "The name that the auth method gives: a user, or an external group.",
  mount_accessor: "The accessor of the auth method.",
  canonical_id: "The entity, or the external group; absent for a new one.",
};

const lookupFields = {
  id: "The id.",
  name: "The name.",
  alias_id: "The id of an alias.",
  alias_name: "The name of an alias, together with `alias_mount_accessor`.",
  alias_mount_accessor: "The accessor of the alias's auth method.",
};

const several: Record<string, Operation> = {
  "POST /identity/entity/merge": {
    id: "mergeEntities",
    summary: "Merge entities into one",
    body: {
      fields: {
        to_entity_id: "The entity that remains, with its policies and metadata.",
        from_entity_ids: "The entities to merge: their aliases, groups and tokens move, the rest is deleted.",
        conflicting_alias_ids_to_keep: "Of two aliases at one auth method, the one that stays.",
        force: "Concerns MFA secrets, which entities do not hold here; answered with a warning.",
      },
    },
    answers: { ...data("Merged, with a warning.", z.null()), ...noContent },
  },
  "POST /identity/entity/batch-delete": {
    id: "deleteEntities",
    summary: "Delete several entities",
    body: { fields: { entity_ids: "Ids of entities; unknown ones are ignored." } },
  },
};

/** Operations of one kind. @param noun for ids of operations: `Entity` */
function operations(kind: "entity" | "group", noun: string): Record<string, Operation> {
  const a = kind === "entity" ? "an entity" : "a group";
  const many = kind === "entity" ? "entities" : "groups";
  const fields = kind === "entity" ? entityFields : groupFields;
  const record = kind === "entity" ? Entity : IdentityGroup;
  const aliased = { ...aliasFields, ...(kind === "entity" && entityAliasFields) };
  const made = z.object({ id: z.string(), name: z.string(), ...(kind === "entity" && { aliases: z.null() }) });
  const written = { ...data("Created.", made), ...noContent };
  const result: Record<string, Operation> = {
    [`POST /identity/${kind}`]: {
      id: `write${noun}`,
      summary: `Create or update ${a}`,
      body: { fields: { ...selected, ...fields } },
      answers: written,
    },
    [`POST /identity/${kind}-alias`]: {
      id: `write${noun}Alias`,
      summary: `Create an alias of ${a}, or move it`,
      body: { fields: { id: "Updates the alias with this id.", ...aliased } },
      answers: data("The alias.", z.object({ id: z.string(), canonical_id: z.string() })),
    },
    [`POST /identity/lookup/${kind}`]: {
      id: `lookUp${noun}`,
      summary: `Find ${a} by id, name or alias`,
      body: { fields: lookupFields },
      answers: { ...data("The record.", record), ...noContent },
    },
    [`POST /identity/${kind}-alias/id/:identity`]: {
      id: `write${noun}AliasById`,
      summary: `Update an alias of ${a}`,
      body: { fields: aliased },
    },
    [`LIST /identity/${kind}-alias/id`]: {
      id: `list${noun}Aliases`,
      summary: `List the aliases of ${many}`,
      answers: data("Their ids.", keysOf({ key_info: z.record(z.string(), Alias) })),
    },
    [`GET /identity/${kind}-alias/id/:identity`]: {
      id: `read${noun}Alias`,
      summary: `Read an alias of ${a}`,
      answers: data("The alias.", Alias),
    },
    [`DELETE /identity/${kind}-alias/id/:identity`]: { id: `delete${noun}Alias`, summary: `Delete an alias of ${a}` },
  };
  for (const [by, name] of [
    ["id", "identity"],
    ["name", "name"],
  ] as const) {
    const By = by === "id" ? "ById" : "ByName";
    const path = `/identity/${kind}/${by}`;
    const info = by === "id" ? { key_info: z.record(z.string(), z.object({ name: z.string() })) } : {};
    const settable = by === "id" ? { name: selected.name, ...fields } : fields;
    result[`LIST ${path}`] = {
      id: `list${noun}s${By}`,
      summary: `List ${many} by ${by}`,
      answers: data("The list.", keysOf(info)),
    };
    result[`GET ${path}/:${name}`] = {
      id: `read${noun}${By}`,
      summary: `Read ${a} by ${by}`,
      answers: data("The record.", record),
    };
    result[`POST ${path}/:${name}`] = {
      id: `write${noun}${By}`,
      summary: `Update ${a} by ${by}`,
      body: { fields: settable },
      answers: by === "id" ? noContent : written,
    };
    result[`DELETE ${path}/:${name}`] = {
      id: `delete${noun}${By}`,
      summary: `Delete ${a} by ${by}`,
    };
  }
  return result;
}

export const identityEntities = group(
  "Identity",
  { identity: "The id.", name: "The name." },
  { ...operations("entity", "Entity"), ...several, ...operations("group", "Group") },
);
