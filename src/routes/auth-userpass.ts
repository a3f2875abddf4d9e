import * as z from "zod";
import { hashPassword, isPassword, MAX_PASSWORD, NO_PASSWORD } from "../auth/passwords.ts";
import {
  DEFAULT_TOKEN_SETTINGS,
  legacyTokenFields,
  olderTokenFields,
  settingsProblem,
  tokenFields,
  tokenSettingsOf,
  tokenSettingsWith,
} from "../auth/token-settings.ts";
import type { TokenSettings } from "../contracts/auth.ts";
import { badRequest, denied, notFound } from "../platform/http/errors.ts";
import { accessControl } from "../rpc/stubs.ts";
import { changeEntry, deleteEntry, entryNames, foundEntry, loggedIn, readEntry } from "./server/auth-call.ts";
import { envelope, keyList, noContent } from "./server/respond.ts";
import { type AuthorisedMethodCall, inMethod, type MethodCall, openInMethod } from "./server/route.ts";

/** Logins by name and password (https://developer.hashicorp.com/vault/api-docs/auth/userpass). */

interface User extends TokenSettings {
  readonly password: string;
}

const USER = "user";

const password = () =>
  z
    .string("password: required")
    .min(1, "password: must not be empty")
    .max(MAX_PASSWORD, `at most ${MAX_PASSWORD} characters`);

/** A hash with bcrypt would take ten times the processor time of a login here: see `auth/passwords.ts`. */
const NO_HASH =
  "must be empty: bcrypt hashes are not accepted, since they cost a Worker too much; give password instead";
const passwordHash = () => z.literal("", NO_HASH).optional();

/** An empty password is an absent one, as upstream. */
const UserBody = z.object({
  password_hash: passwordHash(),
  password: z.preprocess((given) => (given === "" ? undefined : given), password().optional()),
  ...tokenFields,
  ...legacyTokenFields,
});
const PasswordBody = z.object({ password_hash: passwordHash(), password: password() });
const PoliciesBody = z.object({ token_policies: tokenFields.token_policies, policies: legacyTokenFields.policies });
/** The password is checked, not described: a wrong one gets the answer of every failed login. */
const LoginBody = z.object({ password: z.string("missing password").max(MAX_PASSWORD) });

const NAME = /^[A-Za-z0-9_.@-]{1,128}$/;

/** Names are compared in lower case, as upstream does. */
const nameOf = (call: MethodCall<"name">): string => call.params.name.toLowerCase();

const found = (call: MethodCall<"name">): Promise<User> => foundEntry(call, USER, nameOf(call));

function checked(user: User): User {
  const problem = settingsProblem(user);
  if (problem !== null) throw badRequest(problem);
  return user;
}

async function put(call: AuthorisedMethodCall<"name">, body: z.infer<typeof UserBody>): Promise<Response> {
  const name = nameOf(call);
  if (!NAME.test(name)) throw badRequest("username: must be 1 to 128 of A-Z a-z 0-9 _ . @ -");
  const changed = (hash: string | null) => (before: User | null) => {
    if (!before && body.password === undefined) throw badRequest("missing password");
    const settings = tokenSettingsWith(before ?? DEFAULT_TOKEN_SETTINGS, body);
    return checked({ ...settings, password: hash ?? before?.password ?? "" });
  };
  // Checked before the hash is computed, which takes time.
  changed(null)((await readEntry<User>(call, USER, name))?.entry ?? null);
  await changeEntry(call, USER, name, changed(body.password === undefined ? null : await hashPassword(body.password)));
  return noContent();
}

/** Changes a user that exists. @throws RequestError 404 otherwise */
async function update(call: AuthorisedMethodCall<"name">, change: (user: User) => User): Promise<Response> {
  await changeEntry<User>(call, USER, nameOf(call), (before) => {
    if (!before) throw notFound();
    return change(before);
  });
  return noContent();
}

async function login(call: MethodCall<"name">, given: string): Promise<Response> {
  const name = nameOf(call);
  const mount = call.authMount;
  const entry = { mount: mount.uuid, kind: USER, name };
  const attempt = await accessControl(call.env).authAttempt(entry, name);
  if (!attempt.ok) throw denied();
  const text = attempt.value;
  const user = text === null ? null : (JSON.parse(text) as User);
  // An unknown name takes as long as a wrong password.
  const isRight = await isPassword(given, user?.password ?? NO_PASSWORD);
  if (!isRight || user === null || text === null) {
    // A text that no user can have as a name is not remembered.
    const isLocked = NAME.test(name) && (await accessControl(call.env).authFailed(mount.uuid, name, user !== null));
    // Locked by other failures meanwhile: then a right password gets this answer, too.
    throw isLocked ? denied() : badRequest("invalid username or password");
  }
  return loggedIn(call, `login/${name}`, {
    entry,
    seen: [{ kind: USER, name, text }],
    alias: { name, metadata: {} },
    groups: [],
    displayName: name,
    metadata: { username: name },
    settings: tokenSettingsOf(user),
  });
}

export const userpassRoutes = [
  inMethod("LIST /users", { fresh: true }, async (call) => keyList(call, await entryNames(call, USER), {}, "userpass")),
  inMethod("GET /users/:name", { fresh: true }, async (call) => {
    const user = await found(call);
    return envelope(call, { data: { ...tokenSettingsOf(user), ...olderTokenFields(user) }, mountType: "userpass" });
  }),
  inMethod("POST /users/:name", { fresh: true, creates: true, body: UserBody }, put),
  inMethod("DELETE /users/:name", { fresh: true }, async (call) => {
    await deleteEntry(call, USER, nameOf(call));
    return noContent();
  }),
  inMethod("POST /users/:name/password", { fresh: true, body: PasswordBody }, async (call, body) => {
    await found(call);
    const hash = await hashPassword(body.password);
    return update(call, (user) => ({ ...user, password: hash }));
  }),
  inMethod("POST /users/:name/policies", { fresh: true, body: PoliciesBody }, (call, body) =>
    update(call, (user) => checked({ ...user, ...tokenSettingsWith(user, body) })),
  ),
  openInMethod("POST /login/:name", { body: LoginBody }, (call, body) => login(call, body.password)),
];
