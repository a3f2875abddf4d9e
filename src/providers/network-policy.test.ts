import { expect, it } from "vitest";
import type { Networking } from "../contracts/sync-tasks.ts";
import { restricted } from "./network-policy.ts";
import type { Send } from "./outcome.ts";

/** Answers of DNS over HTTPS, by host and record type; other calls are answered 200. */
type Zone = Readonly<Record<string, readonly object[]>>;
const CNAME = { type: 5, TTL: 60, data: "other.example." };
const a = (data: string) => ({ type: 1, TTL: 60, data });
const aaaa = (data: string) => ({ type: 28, TTL: 60, data });

function world(zone: Zone, status = 200) {
  const sent: string[] = [];
  const send: Send = async ([text]) => {
    const url = new URL(text);
    const name = url.searchParams.get("name");
    if (url.hostname !== "dns.example") {
      sent.push(url.href);
      return { ok: true, response: new Response(), text: "{}" };
    }
    const Answer = zone[`${name} ${url.searchParams.get("type")}`];
    sent.push(`${name} ${url.searchParams.get("type")}`);
    const body = JSON.stringify({ Status: Answer ? 0 : 3, ...(Answer && { Answer }) });
    return { ok: true, response: new Response(null, { status }), text: body };
  };
  const ask = async (policy: Networking, url: string) => {
    const call = await restricted(send, policy, "https://dns.example/dns-query")([url, {}]);
    return call.ok ? "sent" : `${call.outcome.outcome} ${call.outcome.code} ${call.outcome.message}`;
  };
  return { sent, ask };
}

const TEN: Networking = { allowed_ipv4_addresses: ["10.0.0.0/8"] };

it("looks nothing up without address lists, or when the lists are not enforced", async () => {
  const { sent, ask } = world({});
  expect(await ask({}, "https://a.example/")).toBe("sent");
  expect(await ask({ allowed_ports: [443] }, "https://a.example/")).toBe("sent");
  expect(await ask({ ...TEN, disable_strict_networking: true }, "https://a.example/")).toBe("sent");
  expect(sent).toEqual(["https://a.example/", "https://a.example/", "https://a.example/"]);
});

it("requires every address of a host to be allowed, by the list of its family", async () => {
  const { ask } = world({
    "in.example A": [CNAME, a("10.0.0.1"), a("10.9.9.9")],
    "mixed.example A": [a("10.0.0.1"), a("192.0.2.1")],
    "dual.example A": [a("10.0.0.1")],
    "dual.example AAAA": [CNAME, aaaa("2001:db8::1")],
  });
  expect(await ask(TEN, "https://in.example/")).toBe("sent");
  expect(await ask(TEN, "https://mixed.example/")).toBe(
    "client network_blocked mixed.example has the address 192.0.2.1, which allowed_ipv4_addresses does not contain.",
  );
  expect(await ask(TEN, "https://dual.example/")).toMatch(/2001:db8::1, which allowed_ipv6_addresses does not contain/);
  expect(await ask({ ...TEN, allowed_ipv6_addresses: ["2001:db8::/32"] }, "https://dual.example/")).toBe("sent");
});

it("reads literal addresses and localhost without a lookup", async () => {
  const { sent, ask } = world({});
  expect(await ask(TEN, "https://10.1.2.3/")).toBe("sent");
  expect(await ask(TEN, "https://192.0.2.1/")).toMatch(/network_blocked/);
  expect(await ask({ allowed_ipv6_addresses: ["::1/128"] }, "http://[::1]:8080/")).toBe("sent");
  expect(await ask(TEN, "http://localhost/")).toMatch(/127\.0\.0\.1/);
  expect(sent.filter((text) => text.endsWith("A"))).toEqual([]);
});

it("checks the port of the URL, by default that of its scheme", async () => {
  const { ask } = world({});
  const policy = { allowed_ports: [443] };
  expect(await ask(policy, "https://a.example:8443/")).toMatch(/port 8443, which allowed_ports does not contain/);
  expect(await ask(policy, "http://127.0.0.1/")).toMatch(/port 80/);
});

it("refuses a call whose addresses are unknown, and sends nothing to the host", async () => {
  const unknown = world({});
  expect(await unknown.ask(TEN, "https://gone.example/")).toMatch(
    /^external network_error gone\.example has no address/,
  );
  const failing = world({ "down.example A": [a("10.0.0.1")] }, 500);
  expect(await failing.ask(TEN, "https://down.example/")).toMatch(/^external network_error .* could not be looked up/);
  expect([...unknown.sent, ...failing.sent].filter((text) => text.startsWith("https:"))).toEqual([]);
});

it("looks a host up once within the TTL of its records", async () => {
  const { sent, ask } = world({ "often.example A": [a("10.0.0.1")] });
  for (let n = 0; n < 3; n++) expect(await ask(TEN, "https://often.example/")).toBe("sent");
  expect(sent.filter((text) => text === "often.example A")).toHaveLength(1);
});
