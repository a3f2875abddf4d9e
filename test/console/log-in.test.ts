import { expect, it } from "vitest";
import { CANARY, describeConsole } from "./support/console.ts";
import { startIdentityProvider } from "./support/identity-provider.ts";

const WRONG_TOKEN = /403 GET \/v1\/auth\/token\/lookup-self/;
const LOG_IN = { name: "Log in", exact: true };

describeConsole("log-in", (suite) => {
  it("opens at the service's address, and shows the identity of the caller", async () => {
    const opened = await suite().open({ token: null });
    const { page } = opened;
    await page.goto(suite().bench.url);
    await expect.poll(() => new URL(page.url()).pathname).toBe("/ui/");
    await opened.shot("log-in");
    await opened.expectClean();
    await opened.logIn(suite().bench.token);
    await page.getByRole("button", { name: "Account: root" }).click();
    await page.getByText("memory only").waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("shows the service's error for a wrong token", async () => {
    const opened = await suite().open({ token: null, refusals: [WRONG_TOKEN] });
    const { page } = opened;
    await page.getByLabel("Token").fill("wrong");
    await page.getByRole("button", LOG_IN).click();
    await page.getByText("Token not recognised").waitFor();
    await page.getByText("permission denied: invalid token").waitFor();
    expect(await page.getByText("Your policies decide this").count()).toBe(0);
    await opened.expectClean();
    await opened.close();
  });

  it("forgets the token on reload, unless the user keeps it for the tab", async () => {
    const opened = await suite().open({ path: "secrets" });
    const { page } = opened;
    await page.reload();
    await page.getByRole("button", LOG_IN).waitFor();
    await expect.poll(() => new URL(page.url()).pathname).toBe("/ui/secrets");
    await page.getByLabel("Token").fill(suite().bench.token);
    await page.getByLabel("Stay logged in when this tab reloads").check();
    await page.getByRole("button", LOG_IN).click();
    await page.getByRole("heading", { name: "Secrets" }).waitFor();
    await page.reload();
    await page.getByRole("heading", { name: "Secrets" }).waitFor();
    const stored = await page.evaluate(() => ({
      local: JSON.stringify(localStorage),
      cookie: document.cookie,
      address: location.href,
    }));
    expect(JSON.stringify(stored)).not.toContain(suite().bench.token);
    await page.getByRole("button", { name: "Account: root" }).click();
    await page.getByRole("button", { name: "Log out" }).click();
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
    await opened.expectClean();
    await opened.close();
  });

  it("logs in by user name and password, through a method at any path and in any namespace", async () => {
    await suite().call("PUT", "sys/namespaces/console-people");
    const at = { namespace: "console-people" };
    await suite().call("POST", "sys/auth/staff", { type: "userpass" }, at);
    await suite().call("POST", "auth/staff/users/ann", { password: "correct horse", token_ttl: "1h" }, at);
    const opened = await suite().open({ token: null, refusals: [/400 POST/, /403 GET/] });
    const { page } = opened;
    await page.getByRole("button", { name: "Password", exact: true }).click();
    await page.getByText("Namespace and auth method").click();
    await page.getByLabel("Namespace").fill("console-people");
    await page.getByLabel("Path of the auth method").fill("staff");
    await page.getByLabel("User name").fill("ann");
    await page.getByLabel("Password").fill("wrong");
    await page.getByRole("button", LOG_IN).click();
    await page.getByText("invalid username or password").waitFor();
    await opened.expectClean();
    await page.getByLabel("Password").fill("correct horse");
    await page.getByRole("button", LOG_IN).click();
    await page.getByRole("button", { name: "Account: staff-ann" }).click();
    await page.getByRole("button", { name: "Renew the token" }).click();
    await page.getByText("The token was renewed.").first().waitFor();
    await expect.poll(() => new URL(page.url()).searchParams.get("ns")).toBe("console-people");
    await opened.expectClean();
    await opened.close();
  });

  it("logs in through an identity provider and returns to the same page", async () => {
    const redirectUri = `${suite().bench.url}/ui/oidc/callback`;
    const provider = await startIdentityProvider(redirectUri);
    await suite().call("POST", "sys/auth/console-sso", { type: "oidc" });
    await suite().call("POST", "auth/console-sso/config", {
      oidc_discovery_url: provider.url,
      ...provider.client,
      default_role: "people",
    });
    const role = { user_claim: "sub", allowed_redirect_uris: [redirectUri], token_policies: "default" };
    await suite().call("POST", "auth/console-sso/role/people", role);
    const opened = await suite().open({ token: null, path: "secrets", refusals: [/403 GET/] });
    const { page } = opened;
    const begin = async (): Promise<void> => {
      await page.getByRole("button", { name: "Single sign-on" }).click();
      if (!(await page.getByLabel("Path of the auth method").isVisible()))
        await page.getByText("Namespace and auth method").click();
      await page.getByLabel("Path of the auth method").fill("console-sso");
      await page.getByRole("button", { name: "Continue to the identity provider" }).click();
    };
    await begin();
    await page.getByRole("heading", { name: "Secrets" }).waitFor();
    await expect.poll(() => new URL(page.url()).pathname + new URL(page.url()).search).toBe("/ui/secrets");
    await page.getByRole("button", { name: "Account: console-sso-ann" }).click();
    await opened.expectClean();
    await page.getByRole("button", { name: "Log out" }).click();
    // A method that the service shows without a token comes first, until another way was taken.
    await suite().call("POST", "sys/mounts/auth/console-sso/tune", { listing_visibility: "unauth" });
    await page.evaluate("localStorage.clear()");
    await opened.go("secrets");
    const ways = page.getByRole("group", { name: "Way to log in" }).getByRole("button");
    await expect.poll(() => ways.first().textContent()).toBe("Single sign-on");
    expect(await ways.first().getAttribute("aria-pressed")).toBe("true");
    await opened.expectClean();
    await page.getByRole("button", { name: "Continue to the identity provider" }).click();
    await page.getByRole("heading", { name: "Secrets" }).waitFor();
    await opened.go("secrets");
    await opened.logIn(suite().bench.token);
    await opened.go("secrets");
    await expect.poll(() => ways.first().textContent()).toBe("Single sign-on");
    expect(await ways.last().getAttribute("aria-pressed")).toBe("true");
    await opened.expectClean();
    await provider.change({ error: CANARY });
    await begin();
    await page.getByText("The identity provider refused the log-in").waitFor();
    await expect.poll(() => new URL(page.url()).search).toBe("");
    await opened.expectClean();
    await suite().call("DELETE", "sys/auth/console-sso");
    await opened.close();
    await provider.close();
  });

  it("logs out when the token expires, and returns to the same page after the next login", async () => {
    const { auth } = (await suite().call("POST", "auth/token/create", { ttl: "60s", policies: ["default"] })) as {
      auth: { client_token: string };
    };
    const opened = await suite().open({ token: auth.client_token, path: "secrets", refusals: [/403/] });
    const { page } = opened;
    await page.getByText(/^Your token (has ended|is no longer valid)/).waitFor({ timeout: 150_000 });
    await opened.logIn(suite().bench.token);
    await page.getByRole("heading", { name: "Secrets" }).waitFor();
    await opened.expectClean();
    await opened.close();
  });

  it("locks the tab after the chosen time without input", async () => {
    const opened = await suite().open({ token: null, isNewProfile: true });
    const { page } = opened;
    await page.clock.install();
    await page.goto(`${suite().bench.url}/ui/`);
    await opened.logIn(suite().bench.token);
    await page.clock.fastForward("14:00");
    await page.getByRole("button", { name: "Account: root" }).waitFor();
    await page.clock.fastForward("01:10");
    await page.getByText("Locked after 15 minutes without input").waitFor();
    // A machine that slept: its first input comes before its timers.
    await opened.logIn(suite().bench.token);
    await page.clock.setSystemTime(Date.now() + 3_600_000);
    await page.mouse.move(40, 40);
    await page.getByText("Locked after 15 minutes without input").waitFor();
    await opened.expectClean();
    await opened.close();
  });
});
