import type { IncomingMessage } from "node:http";
import { bodyOf, startLoopback } from "./loopback.ts";
import { OidcProvider } from "./oidc-provider.ts";
import { TokenReviews } from "./token-reviews.ts";

interface Document {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

/**
 * A token issuer: it serves the documents that tests put at its paths, and counts the requests for each. Below paths that
 * a test makes a provider (`PUT /_double/oidc/…`), people log in.
 */
export async function startIssuer(): Promise<{ url: string; close: () => Promise<void> }> {
  const documents = new Map<string, Document>();
  const requests = new Map<string, { count: number; body: string; authorization: string; trace: string }>();

  const providers = new Map<string, OidcProvider>();
  const clusters = new Map<string, TokenReviews>();

  /** The answer to one request. `PUT` sets a document, `GET /_double/requests/…` reads its requests. */
  async function answer(request: IncomingMessage): Promise<Document> {
    const path = request.url ?? "/";
    const body = String(await bodyOf(request));
    const headers = { "content-type": "application/json" };
    const made = path.replace(/^\/_double\/oidc/, "");
    if (made !== path) {
      const known = providers.get(made);
      const settings = { ...known?.settings, ...JSON.parse(body) };
      if (known) known.settings = settings;
      else providers.set(made, new OidcProvider(settings));
      return { status: 204, headers, body: "" };
    }
    const cluster = path.replace(/^\/_double\/cluster/, "");
    if (cluster !== path) {
      clusters.set(cluster, new TokenReviews(JSON.parse(body)));
      return { status: 204, headers, body: "" };
    }
    if (request.method === "PUT") {
      documents.set(path, { status: 200, headers, ...JSON.parse(body) });
      return { status: 204, headers, body: "" };
    }
    const counted = path.replace(/^\/_double\/requests/, "");
    if (counted !== path) {
      return { status: 200, headers, body: JSON.stringify(requests.get(counted) ?? { count: 0 }) };
    }
    const { authorization = "", traceparent, tracestate } = request.headers;
    const trace = [traceparent, tracestate].join(" ").trim();
    requests.set(path, { count: (requests.get(path)?.count ?? 0) + 1, body, authorization, trace });
    const [reviewed, ...rest] = path.split("/apis/authentication.k8s.io/v1/tokenreviews");
    const reviews = rest.length > 0 && request.method === "POST" ? clusters.get(reviewed ?? "") : undefined;
    if (reviews) {
      const review = await reviews.answer(body, authorization);
      return { status: review.status, headers, body: JSON.stringify(review.body) };
    }
    const url = new URL(path, "http://issuer");
    const [, below = "", endpoint = ""] = /^(.*)(\/\w+)$/.exec(url.pathname) ?? [];
    const asked = { method: request.method ?? "GET", url, body, authorization };
    const answered = await providers.get(below)?.answer(endpoint, asked);
    if (answered) return answered;
    return documents.get(path) ?? { status: 404, headers, body: "{}" };
  }

  return startLoopback(async (request, response) => {
    const { status, headers, body } = await answer(request);
    response.writeHead(status, headers).end(body);
  });
}
