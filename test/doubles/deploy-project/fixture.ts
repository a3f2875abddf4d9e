import { sender } from "../../../src/providers/outcome.ts";
import { deployProject } from "../../../src/sync/destinations/deploy-project/adapter.ts";
import type { CallContext, ExternalObject, Put } from "../../../src/sync/destinations/destination-type.ts";
import type { AccountOptions, Token } from "./account.ts";
import type { DeployProjectDouble, Fault, OpenedAccount } from "./api.ts";

export const value = "hunter2-hunter2";

/** The adapter, the double and one account of it for a test, with the variable DB for all of them. */
export class Fixture {
  readonly double: DeployProjectDouble;
  readonly account: OpenedAccount;
  /** With `token`, the adapter's token is one of these rights. */
  constructor(double: DeployProjectDouble, options: AccountOptions = {}, token?: Omit<Token, "token">) {
    this.double = double;
    this.account = double.open(options);
    if (!token) return;
    const accessToken = `limited-${this.account.id}`;
    double.addToken({ ...token, token: accessToken }, this.account.id);
    this.account = { ...this.account, accessToken };
  }

  /** To the personal project; without names, for production. */
  connection(...deployment_environments: string[]) {
    return deployProject.connection.parse({
      access_token: this.account.accessToken,
      project_id: this.account.projectId,
      deployment_environments: deployment_environments.length > 0 ? deployment_environments : ["production"],
    });
  }

  context = (deadlineMs = 5000): CallContext => ({
    settings: { DEPLOY_PROJECT_URL: this.double.url },
    send: sender({ deadlineMs }),
  });

  put = (changed: Partial<ExternalObject> = {}, to = this.connection(), given = this.context()) =>
    deployProject.put(
      {
        name: "DB",
        reference: null,
        value,
        tags: {},
        idempotencyToken: "intent-1",
        knownToExist: false,
        previousTagKeys: [],
        contentType: "text/plain",
        updatePolicy: "replace",
        ...changed,
      },
      to,
      given,
    );

  remove = (reference: string | null, ownedOnly = false, from = this.connection()) =>
    deployProject.remove({ name: "DB", reference, ownedOnly }, from, this.context());

  inspect = (reference: string | null, of = this.connection()) =>
    deployProject.inspect({ name: "DB", reference }, of, this.context());

  probe = (of = this.connection()) => deployProject.probe(of, this.context());

  operations = () => this.double.requests(this.account.id).map(({ operation }) => operation);
  secrets = () => this.double.secrets(this.account.id);
  /** Name, environments and value of every variable. */
  shapes = () => this.secrets().map(({ key, target, value }) => [key, target.join(), value]);
  fault = (fault: Fault) => this.double.fault(fault, this.account.id);

  /** A person makes a variable; its id. */
  human(body: Record<string, unknown>): string {
    const given = { key: "DB", value: "theirs", type: "encrypted", ...body };
    const created = this.double.call("CreateVariables", { body: given }, this.account.id);
    return (created as { id: string }[])[0]?.id ?? "";
  }
  humanEdits = (id: string, body: Record<string, unknown>) =>
    this.double.call("EditVariable", { id, body }, this.account.id);
  humanRemoves = (id: string) => this.double.call("RemoveVariable", { id }, this.account.id);
}

/** The reference of a successful put. */
export function referenceOf(put: Put): string {
  if (put.outcome !== "ok" || put.reference === undefined) throw new Error(`no reference in ${JSON.stringify(put)}`);
  return put.reference;
}

export const idOf = (reference: string): string => reference.split(" ")[0] ?? "";
