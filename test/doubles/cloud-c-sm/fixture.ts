import { sender } from "../../../src/providers/outcome.ts";
import type { CallContext, ExternalObject } from "../../../src/sync/destinations/destination-type.ts";
import type { CloudCDouble, OpenedAccount } from "./server.ts";

/** The label that the built-in marker tag becomes. */
export const marker = { "hashicorp-vault": "" };

/** A push of `app-db`, as the service would ask for it. */
export const wanted = (changed: Partial<ExternalObject> = {}): ExternalObject => ({
  name: "app-db",
  reference: null,
  value: "hunter2-hunter2",
  tags: { "hashicorp:vault": "" },
  idempotencyToken: "intent-1",
  knownToExist: false,
  previousTagKeys: [],
  contentType: "application/json",
  updatePolicy: "replace",
  ...changed,
});

/** A later push after a first one that returned `reference`. */
export const again = (reference: string | undefined, changed: Partial<ExternalObject> = {}): ExternalObject =>
  wanted({
    reference: reference ?? null,
    value: "two",
    knownToExist: true,
    previousTagKeys: ["hashicorp:vault"],
    tagsWritten: changed.tags === undefined && changed.unsureSince === undefined,
    idempotencyToken: "intent-2",
    ...changed,
  });

/** The context of adapter calls, with the double's addresses. */
export const contextOf = (double: CloudCDouble, deadlineMs = 10_000): CallContext => ({
  settings: { CLOUD_C_SM_URL: double.url, CLOUD_C_TOKEN_URL: double.tokenUrl },
  send: sender({ deadlineMs }),
});

/** The connection of an account, as the schema would give it. */
export const connectionOf = ({ credentials }: OpenedAccount) => {
  const { type, client_email, private_key, private_key_id, project_id, token_uri } = credentials;
  return { credentials: { type, client_email, private_key, private_key_id, project_id, token_uri } };
};

/** The requests to the service, without token requests. */
export const operations = (double: CloudCDouble): (string | null)[] =>
  double
    .requests()
    .map(({ operation }) => operation)
    .filter((operation) => operation !== "Token");
