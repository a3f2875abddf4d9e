import { createHash, generateKeyPairSync, randomUUID, verify } from "node:crypto";
import * as z from "zod";
import type { Received } from "../loopback.ts";
import { type Account, type Answer, bearerOf, jsonIn } from "./account.ts";
import type { Api } from "./apis.ts";

/** https://docs.snowflake.com/en/developer-guide/sql-api/ with the statements about programmatic access tokens. */

const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
export const PRIVATE_KEY = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const DER = publicKey.export({ type: "spki", format: "der" });
const FINGERPRINT = createHash("sha256").update(DER).digest("base64");

const Statement = z.strictObject({ statement: z.string(), timeout: z.int().min(0).max(604_800).optional() });
const statementOf = (received: Received): string => Statement.safeParse(jsonIn(received)).data?.statement ?? "";
const kindOf = ({ headers }: Received): string => headers["x-snowflake-authorization-token-type"] ?? "";
const refused = (status: number, code: string): Answer => ({
  status,
  body: { code, message: "refused", sqlState: "42601", statementHandle: randomUUID() },
});
function rows(...data: readonly (readonly string[])[]): Answer {
  const columns = (data[0] ?? ["status"]).map((_cell, at) => ({ name: `C${at}`, type: "TEXT", nullable: true }));
  const statement = { statementHandle: randomUUID(), createdOn: Date.now(), sqlState: "00000", message: "done" };
  const resultSetMetaData = { format: "jsonv2", numRows: data.length, rowType: columns };
  return { status: 200, body: { code: "090001", ...statement, resultSetMetaData, data } };
}

/** Whether a request has a signed token of the account's user. */
function isSigned({ id }: Account, received: Received): boolean {
  const [head = "", body = "", signature = ""] = bearerOf(received).split(".");
  if (kindOf(received) !== "KEYPAIR_JWT" || signature === "") return false;
  const signed = verify("RSA-SHA256", Buffer.from(`${head}.${body}`), publicKey, Buffer.from(signature, "base64url"));
  const claims = JSON.parse(Buffer.from(body, "base64url").toString()) as Record<string, unknown>;
  const user = `${id.toUpperCase()}.SALLYPORT`;
  const life = Number(claims["exp"]) - Number(claims["iat"]);
  return (
    signed && claims["iss"] === `${user}.SHA256:${FINGERPRINT}` && claims["sub"] === user && life > 0 && life <= 3_600
  );
}

const ADD =
  /^ALTER USER APP ADD PROGRAMMATIC ACCESS TOKEN (\w+) ROLE_RESTRICTION = '(\w+)' DAYS_TO_EXPIRY = (\d+) COMMENT = '([\w-]+)'$/;
const SHOW = /^SHOW USER PROGRAMMATIC ACCESS TOKENS FOR USER APP$/;
const REMOVE = /^ALTER USER APP REMOVE PROGRAMMATIC ACCESS TOKEN (\w+)$/;
const DAY_MS = 86_400_000;
const nameOf = (marker: string): string => marker.replaceAll("-", "_").toUpperCase();

const operation = (kind: Api["operations"][number]["kind"], run: Api["operations"][number]["run"], text?: RegExp) => ({
  kind,
  method: "POST",
  path: /^\/api\/v2\/statements$/,
  ...(text && { takes: (received: Received) => text.test(statementOf(received)) }),
  run,
});

export const snowflake: Api = {
  // Each call names its client.
  owns: (account, received) => (received.headers["user-agent"] ?? "") !== "" && isSigned(account, received),
  refusal: (status) => ({ code: "390144", message: `refused ${status}` }),
  operations: [
    operation(
      "create",
      (account, received, _id, now) => {
        const [, name = "", , days = "", comment = ""] = ADD.exec(statementOf(received)) ?? [];
        if (nameOf(comment) !== name.toUpperCase() || Number(days) < 1 || Number(days) > 365)
          return refused(422, "001003");
        if (account.living(now).some((each) => each.name === comment)) return refused(422, "002002");
        const { secret } = account.add(comment, now + Number(days) * DAY_MS);
        return rows([name.toUpperCase(), secret]);
      },
      ADD,
    ),
    operation(
      "find",
      (account, _received, _id, now) =>
        rows(...account.living(now).map(({ name }) => [nameOf(name), "APP", "R", "", "ACTIVE", name])),
      SHOW,
    ),
    operation(
      "revoke",
      (account, received) => {
        const name = (REMOVE.exec(statementOf(received))?.[1] ?? "").toUpperCase();
        const found = account.made.find((each) => nameOf(each.name) === name);
        return found && account.remove(found.id) ? rows(["removed"]) : refused(422, "002003");
      },
      REMOVE,
    ),
    operation(
      "verify",
      (account, received, _id, now) =>
        kindOf(received) === "PROGRAMMATIC_ACCESS_TOKEN" && account.works(bearerOf(received), now)
          ? rows(["1"])
          : refused(401, "390144"),
      /^SELECT 1$/,
    ),
  ],
};
