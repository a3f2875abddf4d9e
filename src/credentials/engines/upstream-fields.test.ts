import { describe, expect, it } from "vitest";
import type * as z from "zod";
import { fieldNamed, knownFields } from "../../platform/http/unknown-fields.ts";
import { engineTypes } from "./index.ts";

/**
 * The fields of upstream's engines (https://developer.hashicorp.com/vault/api-docs/secret/aws, azure and gcp, of 2.2) against the
 * schemas of the bodies. That a field has an effect is checked by test/workers/fields.quick.test.ts.
 */

const ROTATION = "rotation_schedule rotation_window rotation_period rotation_policy disable_automated_rotation";
const IDENTITY = "identity_token_audience identity_token_ttl";

/** @param left fields without a schema: a request with one is answered with the warning of unknown fields */
interface Row {
  readonly type: string;
  readonly path: string;
  readonly fields: string;
  readonly left?: Readonly<Record<string, string>>;
}

const ROWS: readonly Row[] = [
  {
    type: "cloud-a",
    path: "/config/root",
    fields: `access_key secret_key region iam_endpoint sts_endpoint sts_region sts_fallback_endpoints sts_fallback_regions
      max_retries username_template role_arn ${IDENTITY} ${ROTATION}`,
  },
  { type: "cloud-a", path: "/config/lease", fields: "lease lease_max" },
  {
    type: "cloud-a",
    path: "/roles",
    fields: `credential_type role_arns policy_arns policy_document iam_groups iam_tags default_sts_ttl max_sts_ttl
      session_tags external_id user_path permissions_boundary_arn mfa_serial_number`,
    left: {
      arn: "deprecated since Vault 0.11 for policy_arns",
      policy: "deprecated since Vault 0.11 for policy_document",
    },
  },
  {
    type: "cloud-a",
    path: "/static-roles",
    fields: "username rotation_period assume_role_arn assume_role_session_name external_id",
  },
  { type: "cloud-a", path: "issue", fields: "role_arn ttl role_session_name mfa_code" },
  {
    type: "cloud-b",
    path: "/config",
    fields: `subscription_id tenant_id environment client_id client_secret root_password_ttl ${IDENTITY} ${ROTATION}
      seamless_rotation`,
  },
  {
    type: "cloud-b",
    path: "/roles",
    fields: `azure_roles azure_groups application_object_id persist_app ttl max_ttl explicit_max_ttl permanently_delete
      sign_in_audience tags metadata`,
  },
  {
    type: "cloud-b",
    path: "/static-roles",
    fields: `application_object_id rotation_period ttl rotation_grace_period seamless_rotation metadata
      defer_initial_creds secret_id client_secret skip_import_rotation expiration`,
  },
  {
    type: "cloud-b",
    path: "/static-roles/:name/import",
    fields: "application_object_id secret_id client_secret ttl metadata skip_import_rotation expiration",
  },
  {
    type: "cloud-c",
    path: "/config",
    fields: `credentials ttl max_ttl service_account_email ${IDENTITY} ${ROTATION}`,
  },
  { type: "cloud-c", path: "/roleset", fields: "secret_type project bindings token_scopes" },
  {
    type: "cloud-c",
    path: "/static-account",
    fields: "service_account_email secret_type bindings token_scopes",
  },
  { type: "cloud-c", path: "/impersonated-account", fields: "service_account_email token_scopes ttl" },
  { type: "cloud-c", path: "issue", fields: "key_algorithm key_type ttl" },
];

/** The schema of the body at a path. */
function schemaOf({ type: name, path }: Row): z.ZodType {
  const type = engineTypes.find((each) => each.type === name);
  if (!type) throw new Error(`no engine ${name}`);
  const { config, roles, issue, description } = type;
  const found =
    path === "issue"
      ? issue.request
      : path === description.paths.config
        ? config.body
        : (config.documents?.[path]?.body ?? roles.kinds?.[path] ?? roles.body);
  if (!found) throw new Error(`no body at ${name}${path}`);
  return found;
}

describe("the fields of upstream's engines", () => {
  it.each(ROWS)("are read at $type$path, or are named here with a reason", (row) => {
    const schema = schemaOf(row);
    const named = row.fields.trim().split(/\s+/);
    expect(named.filter((name) => !fieldNamed(schema, name))).toEqual([]);
    expect(Object.keys(row.left ?? {}).filter((name) => fieldNamed(schema, name))).toEqual([]);
    // Without them, no field would be unknown, and none be answered with a warning.
    expect(knownFields(schema)).not.toBeNull();
  });

  it("have a row for each body of the engines that upstream has", () => {
    const bodies = engineTypes
      .filter(({ type }) => ROWS.some((row) => row.type === type))
      .flatMap(({ type, description: { paths, kinds = [], documents = {} } }) =>
        [
          paths.config,
          ...Object.keys(documents),
          paths.roles,
          ...kinds.flatMap((kind) => [kind.path, ...(kind.writes ?? [])]),
        ].map((path) => `${type}${path}`),
      );
    const rows = ROWS.filter(({ path }) => path !== "issue").map(({ type, path }) => `${type}${path}`);
    expect(rows.sort()).toEqual(bodies.sort());
  });
});
