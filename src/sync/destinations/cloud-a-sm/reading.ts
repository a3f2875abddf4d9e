import * as z from "zod";
import { memo } from "../../../lib/memo.ts";
import type { CloudAConnection } from "../../../providers/cloud-a-aws/connection.ts";
import { failure } from "../../../providers/outcome.ts";
import type { Reading } from "../destination-type.ts";
import { secretsManager } from "./service.ts";

const schemas = memo(() => ({
  page: z.object({ SecretList: z.array(z.object({ Name: z.string() })), NextToken: z.string().nullish() }),
  value: z.object({ SecretString: z.string().optional() }),
}));

/** Reads the secrets of an account and region (ListSecrets, GetSecretValue), without those scheduled for deletion. */
export const cloudASmReading: Reading<CloudAConnection> = {
  async list(cursor, details, context) {
    const given = { MaxResults: 100, ...(cursor && { NextToken: cursor }) };
    const answer = await secretsManager(details, context).call("ListSecrets", given);
    if (!answer.ok) return answer.outcome;
    const parsed = schemas().page.safeParse(answer.body);
    if (!parsed.success) return unreadable("ListSecrets");
    const { SecretList, NextToken } = parsed.data;
    return { outcome: "ok", names: SecretList.map(({ Name }) => Name), next: NextToken || null };
  },

  async read(name, details, context) {
    const answer = await secretsManager(details, context).call("GetSecretValue", { SecretId: name });
    if (!answer.ok) {
      // A secret without a value, or one that is scheduled for deletion.
      return answer.error?.type === "ResourceNotFound" ? { outcome: "ok", content: null } : answer.outcome;
    }
    const parsed = schemas().value.safeParse(answer.body);
    if (!parsed.success) return unreadable("GetSecretValue");
    const { SecretString: value } = parsed.data;
    if (value !== undefined) return { outcome: "ok", content: { value } };
    return failure("client", "value_invalid", `The value of ${name} is binary, and not a text.`);
  },
};

const unreadable = (operation: string) =>
  failure("external", "unreadable_answer", `${operation} was answered, but not as the service answers it.`);
