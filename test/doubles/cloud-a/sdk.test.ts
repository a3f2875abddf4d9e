import {
  AddUserToGroupCommand,
  AttachUserPolicyCommand,
  CreateAccessKeyCommand,
  CreateUserCommand,
  DeleteAccessKeyCommand,
  DeleteUserCommand,
  DeleteUserPolicyCommand,
  DetachUserPolicyCommand,
  GetUserCommand,
  IAMClient,
  PutUserPolicyCommand,
  paginateListAttachedUserPolicies,
  paginateListGroupsForUser,
  RemoveUserFromGroupCommand,
} from "@aws-sdk/client-iam";
import {
  AssumeRoleCommand,
  GetCallerIdentityCommand,
  GetFederationTokenCommand,
  GetSessionTokenCommand,
  STSClient,
} from "@aws-sdk/client-sts";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type AccountView, type IamDouble, startIam } from "./server.ts";

/** The vendor's own clients accept the double's answers and errors, by the vendor's names. */

let double: IamDouble;
let account: AccountView;
beforeAll(async () => {
  double = await startIam();
});
afterAll(async () => {
  await double.close();
});
beforeEach(() => {
  account = double.open();
});

const options = () => ({
  region: "us-east-1",
  endpoint: double.url,
  maxAttempts: 1,
  credentials: { accessKeyId: account.access_key, secretAccessKey: account.secret_key },
});
const iam = () => new IAMClient(options());
const sts = (credentials = options().credentials) => new STSClient({ ...options(), credentials });

/** The name and the status of the error that a call is refused with. */
const errorOf = async (call: Promise<unknown>): Promise<unknown> => {
  const failure = await call.then(
    () => null,
    (problem: unknown) => problem as { name: string; $metadata: { httpStatusCode?: number } },
  );
  return failure && [failure.name, failure.$metadata.httpStatusCode];
};

describe("IAM", () => {
  const UserName = "ann";
  const PolicyDocument = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}';

  it("has the life of a user as the vendor's client drives it", async () => {
    const client = iam();
    const Tags = [{ Key: "team", Value: "a=b & <c>" }];
    const made = await client.send(
      new CreateUserCommand({
        UserName,
        Path: "/apps/",
        Tags: [{ Key: "team", Value: "a=b" }],
        PermissionsBoundary: account.boundary_arn,
      }),
    );
    expect(made.User).toMatchObject({ UserName, Path: "/apps/", Arn: expect.stringContaining(":user/apps/ann") });
    expect(await errorOf(client.send(new CreateUserCommand({ UserName, Tags })))).toEqual(["ValidationError", 400]);
    expect(await errorOf(client.send(new CreateUserCommand({ UserName })))).toEqual([
      "EntityAlreadyExistsException",
      409,
    ]);
    for (const PolicyArn of [account.policy_arn, "arn:aws:iam::aws:policy/PowerUserAccess", account.boundary_arn]) {
      await client.send(new AttachUserPolicyCommand({ UserName, PolicyArn }));
    }
    await client.send(new PutUserPolicyCommand({ UserName, PolicyName: "app", PolicyDocument }));
    for (const GroupName of ["developers", "auditors"])
      await client.send(new AddUserToGroupCommand({ UserName, GroupName }));
    const attached: unknown[] = [];
    for await (const page of paginateListAttachedUserPolicies({ client }, { UserName })) {
      attached.push(...(page.AttachedPolicies ?? []));
    }
    expect(attached).toHaveLength(3);
    const groups: unknown[] = [];
    for await (const page of paginateListGroupsForUser({ client }, { UserName })) groups.push(...(page.Groups ?? []));
    expect(groups).toHaveLength(2);
    const { AccessKey } = await client.send(new CreateAccessKeyCommand({ UserName }));
    expect(AccessKey).toMatchObject({ UserName, Status: "Active", CreateDate: expect.any(Date) });
    await client.send(new CreateAccessKeyCommand({ UserName }));
    expect(await errorOf(client.send(new CreateAccessKeyCommand({ UserName })))).toEqual([
      "LimitExceededException",
      409,
    ]);
    expect(await errorOf(client.send(new DeleteUserCommand({ UserName })))).toEqual(["DeleteConflictException", 409]);
    const { User } = await client.send(new GetUserCommand({ UserName }));
    expect(User?.Tags).toEqual([{ Key: "team", Value: "a=b" }]);
    for (const { accessKeyId: AccessKeyId } of double.account(account.account).keysOf(UserName)) {
      await client.send(new DeleteAccessKeyCommand({ UserName, AccessKeyId }));
    }
    for (const PolicyArn of [account.policy_arn, "arn:aws:iam::aws:policy/PowerUserAccess", account.boundary_arn]) {
      await client.send(new DetachUserPolicyCommand({ UserName, PolicyArn }));
    }
    await client.send(new DeleteUserPolicyCommand({ UserName, PolicyName: "app" }));
    for (const GroupName of ["developers", "auditors"]) {
      await client.send(new RemoveUserFromGroupCommand({ UserName, GroupName }));
    }
    await client.send(new DeleteUserCommand({ UserName }));
    expect(await errorOf(client.send(new GetUserCommand({ UserName })))).toEqual(["NoSuchEntityException", 404]);
  });
});

describe("STS", () => {
  it("opens sessions that work, of each kind", async () => {
    const { Account, Arn } = await sts().send(new GetCallerIdentityCommand({}));
    expect([Account, Arn]).toEqual([account.account, `arn:aws:iam::${account.account}:user/sallyport`]);
    const assumed = await sts().send(
      new AssumeRoleCommand({
        RoleArn: account.role_arn,
        RoleSessionName: "ann",
        DurationSeconds: 900,
        PolicyArns: [{ arn: account.policy_arn }],
        Tags: [{ Key: "a", Value: "b" }],
      }),
    );
    expect(assumed.Credentials?.Expiration?.getTime()).toBeGreaterThan(Date.now() + 890_000);
    const { AccessKeyId = "", SecretAccessKey = "", SessionToken = "" } = assumed.Credentials ?? {};
    const session = { accessKeyId: AccessKeyId, secretAccessKey: SecretAccessKey, sessionToken: SessionToken };
    expect((await sts(session).send(new GetCallerIdentityCommand({}))).Arn).toBe(assumed.AssumedRoleUser?.Arn);
    const federated = await sts().send(new GetFederationTokenCommand({ Name: "ann", DurationSeconds: 900 }));
    expect(federated.FederatedUser?.Arn).toContain(":federated-user/ann");
    expect((await sts().send(new GetSessionTokenCommand({}))).Credentials?.SessionToken).toBeTruthy();
    const denied = sts(session).send(new GetFederationTokenCommand({ Name: "ann" }));
    expect(await errorOf(denied)).toEqual(["AccessDenied", 403]);
  });

  it("refuses keys that are new or wrong, and roles that do not trust the caller, by the names of the vendor", async () => {
    const wrong = { ...options().credentials, secretAccessKey: "wrong" };
    expect(await errorOf(sts(wrong).send(new GetCallerIdentityCommand({})))).toEqual(["SignatureDoesNotMatch", 403]);
    account = double.open({ keyMs: 60_000 });
    const { AccessKey } = await iam().send(new CreateAccessKeyCommand({ UserName: "sallyport" }));
    const fresh = { accessKeyId: AccessKey?.AccessKeyId ?? "", secretAccessKey: AccessKey?.SecretAccessKey ?? "" };
    expect(await errorOf(sts(fresh).send(new GetCallerIdentityCommand({})))).toEqual(["InvalidClientTokenId", 403]);
    const guarded = { RoleArn: account.guarded_role_arn, RoleSessionName: "ann" };
    expect(await errorOf(sts().send(new AssumeRoleCommand(guarded)))).toEqual(["AccessDenied", 403]);
    const short = sts().send(new AssumeRoleCommand({ ...guarded, ExternalId: "outside", DurationSeconds: 60 }));
    expect(await errorOf(short)).toEqual(["ValidationError", 400]);
  });
});
