import { z } from "zod";
import { Api, ApiError } from "../api.ts";
import { command, Failure, flag, InvalidUsage, type Io, JSON_OPTION, oneOf, text } from "../command.ts";
import { addressIn, addressOf, placeOf, type Server, textIn } from "../environment.ts";
import { ask, askSecret } from "../prompt.ts";
import { browserLogin } from "./browser.ts";
import { forgetLogin, type Login, loginAt, loginFile, storeLogin } from "./stored.ts";

const METHODS = ["token", "userpass", "approle", "oidc"] as const;

export const login = command({
  words: ["login"],
  summary: "log in, and keep the token for the commands of this user",
  about: `Logs in with a token, a password, an AppRole or in the browser, and keeps the token for the address in a file
with mode 0600. Secrets are asked for, or read from the standard input; they are never arguments.`,
  options: {
    address: text("URL", "the service (default: SALLYPORT_ADDR, VAULT_ADDR or the last login)"),
    namespace: text("NAME", "the namespace of the auth method, and of later commands"),
    method: text("METHOD", `${METHODS.join(", ")} (default token)`),
    mount: text("PATH", "where the auth method is mounted below auth/ (default: the method's name)"),
    username: text("NAME", "for userpass"),
    "role-id": text("ID", "for approle"),
    role: text("NAME", "for oidc (default: the method's default role)"),
    "no-browser": flag("print the address of the login instead of opening a browser"),
    port: text("N", "the port of the browser's way back, as the role allows (default 8250)"),
    ...JSON_OPTION,
  },
  notes: "The file is $XDG_CONFIG_HOME/sallyport/logins.json, else ~/.config/sallyport/logins.json.",
  run: async ({ values }, io) => {
    const method = oneOf("--method", values.method ?? "token", METHODS);
    const place =
      values.address === undefined
        ? placeOf(io.env)
        : { address: addressOf("--address", values.address), namespace: "" };
    const namespace = (values.namespace ?? place.namespace).replace(/^\/+|\/+$/g, "");
    const server = { address: place.address, namespace, token: "" };
    const mount = (values.mount ?? method).replace(/^\/+|\/+$/g, "");
    const token = await tokenBy(method, new Api(server, 0), mount, values, io);
    const found = await identityOf(new Api({ ...server, token }, 0), method);
    const kept: Login = { token, namespace };
    storeLogin(io.env, place.address, kept);
    if (values.json) io.out(JSON.stringify({ address: place.address.href, ...found }, null, 2));
    else
      io.out(
        `Logged in to ${place.address.href} as ${found.display_name}, ${endOf(found.ttl)}. Kept in ${loginFile(io.env)}.`,
      );
    return 0;
  },
});

const endOf = (seconds: number): string =>
  seconds === 0
    ? "without an end"
    : `for ${seconds >= 7200 ? `${Math.floor(seconds / 3600)} h` : `${Math.ceil(seconds / 60)} min`}`;

interface Given {
  readonly username: string | undefined;
  readonly "role-id": string | undefined;
  readonly role: string | undefined;
  readonly port: string | undefined;
  readonly "no-browser": boolean;
}

async function tokenBy(
  method: (typeof METHODS)[number],
  api: Api,
  mount: string,
  given: Given,
  io: Io,
): Promise<string> {
  switch (method) {
    case "token":
      return secret("Token");
    case "userpass": {
      const name = given.username ?? (await ask("Name: "));
      return issued(
        await api.call("POST", `auth/${mount}/login/${encodeURIComponent(name)}`, {
          body: JSON.stringify({ password: await secret("Password") }),
        }),
      );
    }
    case "approle": {
      const role_id = given["role-id"] ?? (await ask("Role id: "));
      return issued(
        await api.call("POST", `auth/${mount}/login`, {
          body: JSON.stringify({ role_id, secret_id: await secret("Secret id") }),
        }),
      );
    }
    case "oidc":
      return issued(await browserLogin(api, mount, given, io));
  }
}

/** Asked for at a terminal, else the standard input without its last line feed. @throws InvalidUsage */
async function secret(name: string): Promise<string> {
  const value = process.stdin.isTTY ? await askSecret(`${name}: `) : textIn(name, "-").replace(/\r?\n$/, "");
  if (value === "") throw new InvalidUsage(`${name}: is empty`);
  if (!/^[\x21-\x7e]+$/.test(value) && name === "Token") throw new InvalidUsage("Token: must be one word");
  return value;
}

function issued({ text: answer }: { readonly text: string }): string {
  const parsed = z.object({ auth: z.object({ client_token: z.string().min(1) }) }).safeParse(JSON.parse(answer));
  if (!parsed.success) throw new Failure("the answer of the login has no token");
  return parsed.data.auth.client_token;
}

const identitySchema = z.object({
  display_name: z.string().default(""),
  policies: z.array(z.string()).nullish(),
  ttl: z.number().default(0),
});

/** The token by itself: a given token is checked; one that was issued may lack the right to look. */
async function identityOf(api: Api, method: string): Promise<z.infer<typeof identitySchema>> {
  try {
    return identitySchema.parse((await api.fields("auth/token/lookup-self")) ?? {});
  } catch (failure) {
    if (!(failure instanceof ApiError && failure.status === 403)) throw failure;
    if (method === "token") throw new Failure("the token is unknown or has ended");
    return { display_name: method, policies: null, ttl: 0 };
  }
}

export const logout = command({
  words: ["logout"],
  summary: "forget the token of a login",
  about: "Removes the kept token of the current address. The token itself goes on until its end without --revoke.",
  options: {
    address: text("URL", "of this service (default: the current one)"),
    revoke: flag("end the token as well"),
    ...JSON_OPTION,
  },
  run: async ({ values }, io) => {
    const env = values.address === undefined ? io.env : { ...io.env, SALLYPORT_ADDR: values.address };
    if (addressIn(env) === "") {
      io.out(values.json ? JSON.stringify({ address: null, revoked: false }) : "There is no login.");
      return 0;
    }
    const { address } = placeOf(env);
    // The kept token, whatever the environment has.
    const kept = loginAt(env, address);
    const revoked = kept !== null && values.revoke && (await revokes({ ...kept, address }));
    forgetLogin(io.env, address);
    if (values.json) io.out(JSON.stringify({ address: address.href, revoked }));
    else if (kept === null) io.out(`There was no login to ${address.href}.`);
    else {
      const notRevoked = " Its token was not revoked: it has ended, or its policies forbid that.";
      io.out(`Logged out of ${address.href}.${values.revoke && !revoked ? notRevoked : ""}`);
    }
    return 0;
  },
});

/** False for a token that has ended or may not revoke itself. */
async function revokes(kept: Server): Promise<boolean> {
  const { status } = await new Api(kept, 0).call("POST", "auth/token/revoke-self", { accept: [403] });
  return status !== 403;
}
