import {
  GetGroupPolicyCommand,
  GetUserCommand,
  IAMClient,
  ListAttachedGroupPoliciesCommand,
  ListMFADevicesCommand,
  ListServiceSpecificCredentialsCommand,
  ListSSHPublicKeysCommand,
} from "@aws-sdk/client-iam";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type AccountView, type IamDouble, startIam } from "../../../../test/doubles/cloud-a/server.ts";
import { setOutboundPolicy } from "../../../providers/outbound-url.ts";
import { sender } from "../../../providers/outcome.ts";
import { cloudA } from "./client.ts";
import { accountOf, changeConfig } from "./config.ts";

/** Our client beside the vendor's, at the double. */

let double: IamDouble;
let account: AccountView;
beforeAll(async () => {
  setOutboundPolicy({ PRIVATE_HOSTS: "127.0.0.1" });
  double = await startIam();
  account = double.open();
});
afterAll(async () => {
  setOutboundPolicy({});
  await double.close();
});

const iam = () =>
  new IAMClient({
    region: "us-east-1",
    endpoint: double.url,
    maxAttempts: 1,
    credentials: { accessKeyId: account.access_key, secretAccessKey: account.secret_key },
  });
const UserName = "ann";

it("shows what our client has made, and answers its reads alike", async () => {
  const { access_key, secret_key } = account;
  const config = changeConfig(
    null,
    { access_key, secret_key, iam_endpoint: double.url, sts_endpoint: double.url },
    null,
  );
  const identity = config.ok ? accountOf(config.value, {}) : config;
  if (!identity.ok) throw new Error(identity.message);
  const send = sender({ deadlineMs: 60_000 });
  const ours = cloudA(identity.value, { send, sendTo: send, assertion: undefined });
  const tags = { sallyport: "m", team: "a" };
  expect(await ours.createUser({ name: UserName, path: "", boundary: "", tags })).toMatchObject({ ok: true });
  const client = iam();
  const { User } = await client.send(new GetUserCommand({ UserName }));
  expect(await ours.getUser(UserName)).toEqual({ ok: true, value: { name: UserName, id: User?.UserId, tags } });
  const group = await ours.groupPolicies("developers");
  const listed = await client.send(new ListAttachedGroupPoliciesCommand({ GroupName: "developers" }));
  const inline = await client.send(new GetGroupPolicyCommand({ GroupName: "developers", PolicyName: "list" }));
  expect(group).toEqual({
    ok: true,
    value: {
      arns: listed.AttachedPolicies?.map(({ PolicyArn }) => PolicyArn),
      documents: [decodeURIComponent(inline.PolicyDocument ?? "")],
    },
  });
  expect(await ours.additions(UserName)).toEqual({ ok: true, value: [{ kind: "login", id: UserName }] });
  for (const command of [ListMFADevicesCommand, ListSSHPublicKeysCommand, ListServiceSpecificCredentialsCommand]) {
    expect(await client.send(new command({ UserName }) as ListMFADevicesCommand)).toMatchObject({
      $metadata: { httpStatusCode: 200 },
    });
  }
});
