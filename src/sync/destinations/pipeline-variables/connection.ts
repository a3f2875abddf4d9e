import type * as z from "zod";
import { applicationFields, connectionSchema, optionalText, requiredText } from "../fields.ts";
import { identityTokenFields } from "../identity-fields.ts";

const application = ["tenant_id", "client_id", "client_secret", "identity_token_audience"] as const;

/** A destination's connection to its variable group. */
export const pipelineConnection = connectionSchema(
  () => ({
    organization: requiredText(
      /^[A-Za-z\d](?:[A-Za-z\d-]{0,48}[A-Za-z\d])?$/,
      "must be the organization's name: letters, digits and hyphens, at most 50",
    ),
    project: requiredText(
      /^(?![_.])[^\p{Cc}\\/:*?"<>|;#${},+=[\]]{1,64}$/u,
      "must be the project's name or id, at most 64 characters",
    ),
    variable_group_id: requiredText(/^[1-9]\d{0,9}$/, "must be the group's id, a number"),
    access_token: optionalText(/^[\x21-\x7e]{1,4096}$/, "must be printable characters without spaces"),
    /** Without an access token. */
    ...applicationFields(),
    ...identityTokenFields,
  }),
  (given, refuse) => {
    if (given.access_token) {
      for (const field of application) {
        if (given[field]) refuse(field, "cannot be set together with access_token");
      }
      return;
    }
    const { client_secret: secret, identity_token_audience: audience } = given;
    if (!given.tenant_id && !given.client_id && !secret && !audience) {
      refuse("access_token", "is required, or an application: tenant_id, client_id and client_secret");
      return;
    }
    if (!given.tenant_id) refuse("tenant_id", "is required without access_token");
    if (!given.client_id) refuse("client_id", "is required without access_token");
    if (secret && audience) refuse("identity_token_audience", "cannot be set together with client_secret");
    if (!secret && !audience) refuse("client_secret", "is required without access_token");
  },
);
export type PipelineConnection = z.infer<ReturnType<typeof pipelineConnection>>;
