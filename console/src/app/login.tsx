import { useEffect, useState } from "preact/hooks";
import { ApiError, isTokenRefused } from "../api/client.ts";
import {
  logInWithOidc,
  logInWithPassword,
  logInWithToken,
  namespaceOfPlace,
  redirectUri,
  visibleMethods,
} from "../api/login.ts";
import { farewell } from "../api/session.ts";
import { Button } from "../components/button.tsx";
import { ErrorPanel } from "../components/error-panel.tsx";
import { Checkbox, Segments, TextField } from "../components/field.tsx";
import { Icon } from "../components/icons.tsx";
import { useAction, useResource } from "../lib/resource.ts";
import { setQuery } from "./router.ts";

type Method = "token" | "userpass" | "oidc";

const METHODS: readonly { readonly value: Method; readonly label: string }[] = [
  { value: "token", label: "Token" },
  { value: "userpass", label: "Password" },
  { value: "oidc", label: "Single sign-on" },
];

const REMEMBERED = "sallyport.login";

interface Remembered {
  /** Null for none yet: single sign-on where the service shows it, else a token. */
  readonly method: Method | null;
  readonly mount: string;
  readonly role: string;
  readonly keep: boolean;
}

function remembered(): Remembered {
  try {
    const found = JSON.parse(localStorage.getItem(REMEMBERED) ?? "{}") as Partial<Remembered>;
    const method = METHODS.find(({ value }) => value === found.method)?.value ?? null;
    return { method, mount: found.mount ?? "", role: found.role ?? "", keep: found.keep === true };
  } catch {
    return { method: null, mount: "", role: "", keep: false };
  }
}

const isUnknown = (error: unknown): boolean => error instanceof ApiError && isTokenRefused(error);

export function Login() {
  const [before] = useState(remembered);
  const [chosen, setChosen] = useState(before.method);
  const [mount, setMount] = useState(before.mount);
  const [role, setRole] = useState(before.role);
  const [namespace, setNamespace] = useState(namespaceOfPlace);
  const [keep, setKeep] = useState(before.keep);
  const [name, setName] = useState("");
  const [secret, setSecret] = useState("");
  const methods = useResource(["methods", namespace], () => visibleMethods(namespace));
  const hasSso = methods.value?.some(({ type }) => type === "oidc") ?? false;
  // A secret that is being typed keeps its field when the methods are read.
  const method = chosen ?? (hasSso && secret === "" ? "oidc" : "token");
  const mounts = (methods.value ?? [])
    .filter(({ type }) => type === method || (method === "oidc" && type === "jwt"))
    .map(({ path }) => path);
  const place = { namespace: namespace.trim().replace(/^\/|\/$/g, ""), keep };
  const path = mount.trim().replace(/^(auth)?\/|\/$/g, "") || (mounts[0] ?? method);

  const login = useAction(async () => {
    localStorage.setItem(REMEMBERED, JSON.stringify({ method, mount, role, keep } satisfies Remembered));
    setQuery({ ns: place.namespace || null });
    if (method === "token") await logInWithToken(secret.trim(), place);
    else if (method === "userpass") await logInWithPassword(path, name.trim(), secret, place);
    else await logInWithOidc(path, role.trim(), place);
  });
  const choose = (wanted: Method): void => {
    setChosen(wanted);
    setSecret("");
    setMount("");
    login.clear();
  };
  useEffect(() => {
    document.title = "Log in · Sallyport";
  }, []);

  return (
    <main class="login">
      <form
        class="login-box"
        onSubmit={(event) => {
          event.preventDefault();
          void login.run();
        }}
      >
        <div class="login-mark">
          <Icon name="mark" size={28} />
          <h1>Sallyport</h1>
        </div>
        {farewell.value && <p class="notice">{farewell.value}</p>}
        <Segments
          label="Way to log in"
          value={method}
          options={hasSso ? METHODS.toReversed() : METHODS}
          onChange={choose}
        />
        {method === "token" && (
          <TextField
            key="token"
            label="Token"
            type="password"
            value={secret}
            onChange={setSecret}
            required
            mono
            autofocus
            autocomplete="off"
          />
        )}
        {method === "userpass" && (
          <>
            <TextField
              key="name"
              label="User name"
              value={name}
              onChange={setName}
              required
              autofocus
              autocomplete="username"
            />
            <TextField
              key="password"
              label="Password"
              type="password"
              value={secret}
              onChange={setSecret}
              required
              autocomplete="current-password"
            />
          </>
        )}
        {method === "oidc" && (
          <TextField
            key="role"
            label="Role"
            value={role}
            onChange={setRole}
            placeholder="the method's default"
            hint={`The role's redirect URI for this console is ${redirectUri()}`}
          />
        )}
        <details class="more-fields" open={place.namespace !== "" || mount !== ""}>
          <summary>Namespace and auth method</summary>
          <TextField label="Namespace" value={namespace} onChange={setNamespace} placeholder="root" mono />
          {method !== "token" && (
            <TextField
              label="Path of the auth method"
              value={mount}
              onChange={setMount}
              placeholder={path}
              mono
              list={mounts}
            />
          )}
        </details>
        <Checkbox
          label="Stay logged in when this tab reloads"
          hint="Otherwise a reload logs you out. The token stays in the tab's storage until the tab is closed, or locked when idle."
          checked={keep}
          onChange={setKeep}
        />
        {login.error !== null &&
          (isUnknown(login.error) ? (
            <ErrorPanel title="Token not recognised" error={login.error}>
              It is mistyped, has ended, was revoked, or belongs to another service.
            </ErrorPanel>
          ) : (
            <ErrorPanel title="The log-in was refused" error={login.error} />
          ))}
        <Button kind="primary" type="submit" isBusy={login.isBusy}>
          {method === "oidc" ? "Continue to the identity provider" : "Log in"}
        </Button>
      </form>
      <p class="login-foot">
        <a href="/docs">API documentation</a>
      </p>
    </main>
  );
}
