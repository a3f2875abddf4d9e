/** Lists that are longer than a test could make them at the service. */
import type { Page } from "playwright-core";

/** Answers a list of the cluster API in pages of the size that is asked for. */
export async function servePages(
  page: Page,
  pattern: string | RegExp,
  total: number,
  rowOf: (at: number) => object,
): Promise<void> {
  await page.route(pattern, async (route) => {
    const query = new URL(route.request().url()).searchParams;
    const from = Number(query.get("next_token") ?? 0);
    const until = Math.min(total, from + Number(query.get("per_page") ?? 200));
    const rows = Array.from({ length: until - from }, (_, offset) => rowOf(from + offset));
    const headers: Record<string, string> = { "X-Orch-Index": "1" };
    if (until < total) headers["X-Orch-NextToken"] = String(until);
    await route.fulfill({ json: rows, headers });
  });
}
