import { describe, expect, it } from "vitest";
import { failure } from "../../../providers/outcome.ts";
import { notSent, type Operation, refusal, unanswered, unreadable } from "./errors.ts";

const writing: Operation = {
  name: "Making it",
  reads: false,
  grant: "the engine's application the right R",
  missing: "such thing",
};
const reading: Operation = { ...writing, name: "Reading it", reads: true };

const refused = (
  status: number,
  code: string,
  { message = "free text with s3cret", headers = {}, operation = writing }: Partial<Given> = {},
) => refusal(operation, new Response(null, { status, headers }), { error: { code, message } });

interface Given {
  message: string;
  headers: Record<string, string>;
  operation: Operation;
}

describe("a refusal by its code", () => {
  it.each([
    [403, "Authorization_RequestDenied", "permission_denied", "grant the engine's application the right R"],
    [401, "Authorization_IdentityNotFound", "auth_failed", "has no service principal in this tenant; create it there"],
    [401, "InvalidAuthenticationToken", "auth_failed", "token"],
    [403, "Directory_QuotaExceeded", "limit_reached", "purge deleted applications"],
    [400, "Directory_QuotaExceeded", "limit_reached", "raise the quota"],
    [403, "Directory_ResourceSizeExceeded", "limit_reached", "remove those that are not used"],
    [400, "NoBackingApplicationObject", "not_replicated", "not known everywhere yet"],
    [409, "Request_MultipleObjectsWithSameKeyValue", "already_exists", "there already"],
    [404, "Request_ResourceNotFound", "not_found", "there is no such thing"],
    [400, "CredentialInvalidLifetimeAsPerAppPolicy", "refused", "smaller explicit_max_ttl"],
    [400, "CredentialTypeNotAllowedAsPerAppPolicy", "refused", "forbids passwords"],
    [400, "SignInAudienceNotAllowedAsPerAppPolicy", "refused", "this sign_in_audience"],
    [403, "AuthorizationFailed", "permission_denied", "grant the engine's application the right R"],
    [403, "LinkedAuthorizationFailed", "permission_denied", "grant the engine's application the right R"],
    [403, "DenyAssignmentAuthorizationFailed", "permission_denied", "deny assignment"],
    [400, "PrincipalNotFound", "not_replicated", "not known everywhere yet"],
    [409, "RoleAssignmentExists", "already_exists", "there already"],
    [400, "RoleAssignmentLimitExceeded", "limit_reached", "remove those that are not used"],
    [403, "RoleAssignmentUpdateNotPermitted", "refused", "another role, principal or scope"],
    [404, "RoleDefinitionDoesNotExist", "not_found", "no such role definition"],
    [400, "RoleDefinitionDoesNotExist", "not_found", "no such role definition"],
    [404, "SubscriptionNotFound", "not_found", "no such subscription"],
    [404, "ResourceGroupNotFound", "not_found", "no such resource group"],
    [409, "ScopeLocked", "locked", "remove the lock"],
    [401, "InvalidAuthenticationTokenTenant", "auth_failed", "another tenant than tenant_id"],
    [423, "Whatever", "locked", "remove the lock"],
    [404, "Whatever", "not_found", "there is no such thing"],
    [403, "Whatever", "permission_denied", "grant the engine's application the right R"],
    [400, "Request_BadRequest", "refused", "does not accept the request"],
  ])("%i %s is %s", (status, providerCode, code, text) => {
    const found = refused(status, providerCode);
    expect(found).toMatchObject({ outcome: "client", code, status, providerCode });
    expect(found.message).toMatch(/^Making it was refused: .*\.$/);
    expect(found.message).toContain(text);
    expect(found.message).toContain(`(${providerCode}, HTTP ${status})`);
    expect(found.message).not.toContain("s3cret");
  });

  it.each([
    [409, "Directory_ConcurrencyViolation", "contended"],
    [409, "Conflict", "contended"],
    [429, "TooManyRequests", "throttled"],
    [429, "Authorization_RequestDenied", "throttled"],
    [530, "", "network_error"],
  ])("%i %s is transient: %s", (status, providerCode, code) => {
    expect(refused(status, providerCode)).toMatchObject({ outcome: "external", code, status, providerCode });
  });

  it.each([500, 502, 503, 504, 408])("%i leaves a change uncertain, but not a read", (status) => {
    const given = ["unknown", "external"].map((outcome) => ({ outcome, code: "provider_unavailable", status }));
    const found = [writing, reading].map((operation) => refused(status, "InternalServerError", { operation }));
    expect(found).toMatchObject(given);
  });
});

describe("a refusal by its text, where one code has many meanings", () => {
  it.each([
    [
      400,
      "Request_BadRequest",
      "One or more added object references already exist for the following modified properties: 'members'.",
      "already_exists",
    ],
    [
      409,
      "Request_Conflict",
      "The service principal cannot be created, updated, or restored because the service principal name 7f is already in use.",
      "already_exists",
    ],
    [400, "Request_BadRequest", "No password credential found with keyId '4a'.", "not_found"],
    [
      400,
      "Request_BadRequest",
      "The appId '4a' of the service principal does not reference a valid application object.",
      "not_replicated",
    ],
    [
      403,
      "Authorization_RequestDenied",
      "When using this permission, the backing application of the service principal being created must in the local tenant",
      "not_replicated",
    ],
    [
      400,
      "Request_BadRequest",
      "Resource '4a' does not exist or one of its queried reference-property objects are not present.",
      "not_replicated",
    ],
    [
      404,
      "Request_ResourceNotFound",
      "Resource '4a' does not exist or one of its queried reference-property objects are not present.",
      "not_found",
    ],
    [
      400,
      "Request_BadRequest",
      "The size of the object has exceeded its limit. Please reduce the number of values and retry your request.",
      "limit_reached",
    ],
    [500, "InternalServerError", "There are too many concurrent requests being made.", "contended"],
    [400, "Request_BadRequest", "Updating members of a dynamic membership group is not allowed.", "refused"],
  ])("%i %s %s", (status, providerCode, message, code) => {
    expect(refused(status, providerCode, { message })).toMatchObject({ code, status, providerCode });
  });
});

describe("the requested wait", () => {
  it.each<[Record<string, string>, number | undefined]>([
    [{ "retry-after": "7" }, 7000],
    [{ "x-ms-retry-after-ms": "250" }, 250],
    [{ "retry-after-ms": "1500", "retry-after": "2" }, 1500],
    [{ "x-ms-retry-after-ms": "soon", "retry-after": "2" }, 2000],
    [{ "x-ms-retry-after-ms": "999999999" }, 3_600_000],
    [{}, undefined],
  ])("%j is %s ms", (headers, expected) => {
    expect(refused(429, "TooManyRequests", { headers }).retryAfterMs).toBe(expected);
  });

  it("is absent for permanent failures", () => {
    expect(refused(403, "AuthorizationFailed", { headers: { "retry-after": "7" } })).not.toHaveProperty("retryAfterMs");
  });
});

describe("the message of a refusal", () => {
  it("names the provider's request id", () => {
    const headers = { "request-id": "1f3b2c1d-aaaa-bbbb-cccc-1234567890ab" };
    expect(refused(403, "Authorization_RequestDenied", { headers }).message).toContain(
      "(Authorization_RequestDenied, HTTP 403, request 1f3b2c1d-aaaa-bbbb-cccc-1234567890ab)",
    );
    const malicious = { "x-ms-request-id": "<b>secret text</b>" };
    expect(refused(403, "AuthorizationFailed", { headers: malicious }).message).not.toContain("secret");
  });

  it("leaves out malformed codes and bodies", () => {
    expect(refused(400, "a sentence with s3cret")).toMatchObject({ providerCode: "", code: "refused" });
    for (const body of [undefined, null, "text", { error: "text" }, { error: null }, []]) {
      const found = refusal(writing, new Response(null, { status: 403 }), body);
      expect(found).toMatchObject({ code: "permission_denied", providerCode: "", status: 403 });
    }
  });
});

describe("a call without an answer of the service", () => {
  it.each([
    ["deadline_exceeded", "deadline_exceeded"],
    ["network_error", "network_error"],
    ["answer_too_large", "unreadable_answer"],
    ["insecure_url", "misconfigured"],
    ["invalid_url", "misconfigured"],
    ["paused", "provider_unavailable"],
  ])("%s is %s", (given, code) => {
    const outcome = failure("external", given, "It failed.");
    expect(unanswered({ outcome }, writing)).toEqual({
      outcome: "external",
      code,
      message: "It failed.",
      status: null,
      providerCode: "",
    });
  });

  it("is unknown for a change, and external for a read", () => {
    const outcome = failure("unknown", "network_error", "It failed.");
    expect(unanswered({ outcome }, writing).outcome).toBe("unknown");
    expect(unanswered({ outcome }, reading).outcome).toBe("external");
    expect([unreadable(writing, 201), unreadable(reading, 200)]).toMatchObject([
      { outcome: "unknown", code: "unreadable_answer", status: 201 },
      { outcome: "external", code: "unreadable_answer", status: 200 },
    ]);
  });

  it("after a redirect is unknown for a change, and refused for a read and for a token", () => {
    const outcome = failure("client", "redirect_refused", "It failed.");
    const token = { ok: false, outcome, status: null, providerCode: "" } as const;
    const found = [unanswered({ outcome }, writing), unanswered({ outcome }, reading), unanswered(token, writing)];
    expect(found.map((each) => [each.outcome, each.code])).toEqual([
      ["unknown", "unreadable_answer"],
      ["client", "misconfigured"],
      ["client", "misconfigured"],
    ]);
  });

  it("keeps number and status of a refused token", () => {
    const outcome = failure("client", "auth_failed", "No access token was given.");
    const token = { ok: false, outcome, status: 401, providerCode: "AADSTS7000215" } as const;
    expect(unanswered(token, writing)).toMatchObject({
      outcome: "client",
      code: "auth_failed",
      status: 401,
      providerCode: "AADSTS7000215",
    });
  });

  it("names the violated rule when no request was sent", () => {
    expect(notSent(writing, "refused", "an object id must be a UUID")).toMatchObject({
      outcome: "client",
      code: "refused",
      status: null,
      message: expect.stringContaining("must be a UUID."),
    });
  });
});
