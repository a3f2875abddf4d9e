import { expect, it } from "vitest";
import { requestToken } from "./login.ts";

const account = {
  loginUrl: "https://login.example",
  tenantId: "t",
  clientId: "c",
  resource: "https://vault.example",
  clientSecret: "s",
};

const answered = (status: number, text: string) =>
  requestToken(account, async () => ({ ok: true, response: new Response(text, { status }), text }));

it("reports an answer that does not come from the login service", async () => {
  for (const status of [403, 404]) {
    const page = await answered(status, "<html>Blocked</html>");
    expect(page, String(status)).toMatchObject({
      outcome: { outcome: "client", code: "auth_failed", message: expect.stringContaining("is not the login service") },
    });
    const own = await answered(status, JSON.stringify({ error: "invalid_client", error_codes: [7000215] }));
    expect(own, String(status)).toMatchObject({
      outcome: { message: expect.stringContaining("client_secret is not") },
    });
  }
});
