import { afterEach, describe, expect, it, vi } from "vitest";
import { callTenantUrl, refusedUrl, setOutboundPolicy } from "./outbound-url.ts";

afterEach(() => {
  setOutboundPolicy({});
  vi.unstubAllGlobals();
});

const PRIVATE = "must not be a private address, unless PRIVATE_HOSTS lists it";
const HTTPS = "must begin with https://";

describe("a URL that a tenant names", () => {
  it.each([
    ["public IPv4", "https://192.1.2.3/keys", null],
    ["public IPv6", "https://[2606:4700:4700::1111]/", null],
    ["a public name", "https://issuer.example.com:8443/", null],
    ["plain http", "http://issuer.example.com/", HTTPS],
    ["another scheme", "ftp://issuer.example.com/", HTTPS],
    ["credentials", "https://a:b@issuer.example.com/", "must be a URL without credentials"],
    ["http to loopback", "http://127.0.0.1:9000/any", HTTPS],
    ["loopback", "https://127.0.0.1:9000/any", PRIVATE],
    ["loopback elsewhere in its network", "https://127.255.0.9/", PRIVATE],
    ["a short loopback", "https://127.1/", PRIVATE],
    ["a decimal loopback", "https://2130706433/", PRIVATE],
    ["an octal loopback", "https://0177.0.0.1/", PRIVATE],
    ["a hexadecimal loopback", "https://0x7f000001/", PRIVATE],
    ["full-width digits", "https://１２７.0.0.1/", PRIVATE],
    ["a dot after the address", "https://127.0.0.1./", PRIVATE],
    ["the unspecified address", "https://0.0.0.0/", PRIVATE],
    ["this network", "https://0.1.2.3/", PRIVATE],
    ["10/8", "https://10.0.0.1/", PRIVATE],
    ["172.16/12", "https://172.31.255.255/", PRIVATE],
    ["192.168/16", "https://192.168.1.1/", PRIVATE],
    ["shared addresses", "https://100.64.0.1/", PRIVATE],
    ["link-local", "https://169.254.169.254/", PRIVATE],
    ["documentation 1", "https://192.0.2.1/", PRIVATE],
    ["documentation 2", "https://198.51.100.1/", PRIVATE],
    ["documentation 3", "https://203.0.113.1/", PRIVATE],
    ["benchmarks", "https://198.19.0.1/", PRIVATE],
    ["a 6to4 relay", "https://192.88.99.1/", PRIVATE],
    ["multicast", "https://224.0.0.1/", PRIVATE],
    ["broadcast", "https://255.255.255.255/", PRIVATE],
    ["IPv6 loopback", "https://[::1]/", PRIVATE],
    ["mapped IPv4", "https://[::ffff:127.0.0.1]/", PRIVATE],
    ["compatible IPv4", "https://[::127.0.0.1]/", PRIVATE],
    ["translated IPv4", "https://[::ffff:0:7f00:1]/", PRIVATE],
    ["NAT64", "https://[64:ff9b::127.0.0.1]/", PRIVATE],
    ["local NAT64", "https://[64:ff9b:1::7f00:1]/", PRIVATE],
    ["discarded", "https://[100::1]/", PRIVATE],
    ["Teredo", "https://[2001:0:4136:e378::1]/", PRIVATE],
    ["ORCHID", "https://[2001:20::1]/", PRIVATE],
    ["IPv6 benchmarks", "https://[2001:2::1]/", PRIVATE],
    ["IPv6 documentation", "https://[2001:db8::1]/", PRIVATE],
    ["later IPv6 documentation", "https://[3fff::1]/", PRIVATE],
    ["6to4", "https://[2002:7f00:1::1]/", PRIVATE],
    ["segment routing", "https://[5f00::1]/", PRIVATE],
    ["unique local", "https://[fd00::1]/", PRIVATE],
    ["IPv6 link-local", "https://[fe80::1]/", PRIVATE],
    ["site-local", "https://[fec0::1]/", PRIVATE],
    ["IPv6 multicast", "https://[ff02::1]/", PRIVATE],
    ["localhost", "https://localhost/", PRIVATE],
    ["localhost in capitals, with a dot", "https://LOCALHOST./", PRIVATE],
    ["a name below localhost", "https://a.localhost/", PRIVATE],
    ["the metadata server", "https://metadata.google.internal/", PRIVATE],
    ["multicast DNS", "https://printer.local/", PRIVATE],
    ["a home network", "https://nas.home.arpa/", PRIVATE],
    ["a name without a domain", "https://kubernetes/", PRIVATE],
    ["a name that only begins so", "https://localhost.example.com/", null],
  ])("with %s: %s", (_, url, refusal) => {
    expect(refusedUrl(url)).toBe(refusal);
  });

  it("may be private, and plain http on loopback, where PRIVATE_HOSTS lists its host", () => {
    setOutboundPolicy({ PRIVATE_HOSTS: "127.0.0.1:9000, [::1] *.corp.internal,10.1.2.3" });
    expect(refusedUrl("http://127.0.0.1:9000/jwks")).toBeNull();
    expect(refusedUrl("http://[::1]:1/")).toBeNull();
    expect(refusedUrl("https://idp.corp.internal/")).toBeNull();
    expect(refusedUrl("https://10.1.2.3/")).toBeNull();
    expect(refusedUrl("http://10.1.2.3/")).toBe(HTTPS);
    expect(refusedUrl("http://idp.corp.internal/")).toBe(HTTPS);
    expect(refusedUrl("https://127.0.0.1:9001/")).toBe(PRIVATE);
    expect(refusedUrl("https://10.1.2.4/")).toBe(PRIVATE);
  });
});

describe("a call to a tenant's URL", () => {
  const call = async (url: string) => {
    const answer = await callTenantUrl(url, {}, { deadlineMs: 1_000 });
    return answer.ok ? answer.text : answer.outcome.message;
  };

  it("goes through the network of public addresses, unless the operator lists the host", async () => {
    vi.stubGlobal("fetch", async () => new Response("own network"));
    const network = { fetch: async () => new Response("public network") };
    setOutboundPolicy({ PRIVATE_HOSTS: "10.1.2.3", PUBLIC_NETWORK: network });
    expect(await call("https://issuer.example.com/")).toBe("public network");
    expect(await call("https://10.1.2.3/")).toBe("own network");
    setOutboundPolicy({});
    expect(await call("https://issuer.example.com/")).toBe("own network");
  });

  it("is not sent to a refused one, whatever listens there", async () => {
    const sent = vi.fn();
    vi.stubGlobal("fetch", sent);
    expect(await call("https://127.0.0.1:9000/")).toBe(`the URL ${PRIVATE}`);
    expect(sent).not.toHaveBeenCalled();
  });
});
