import type { RequestDraft, Response } from "@sallyport/csi-wire";
import type { PluginClient } from "./client.ts";
import { CallFailure } from "./failure.ts";

type Lister = "ListVolumes" | "ListSnapshots";

/** Upper bound of pages; more indicate a defective plugin. */
const MAX_PAGES = 10_000;

/** The pages of a list from a token on. */
export async function* pagesOf<R extends Lister>(
  client: PluginClient,
  rpc: R,
  pluginId: string,
  request: RequestDraft<R>,
  until: number,
): AsyncGenerator<Response<R>> {
  let token = request.startingToken ?? "";
  for (let page = 0; page < MAX_PAGES; page++) {
    const answer = await client.call(rpc, { ...request, startingToken: token }, until);
    yield answer;
    const { nextToken } = answer as Response<Lister>;
    if (nextToken === "") return;
    if (nextToken === token) throw new CallFailure(pluginId, rpc, 0, "its next page is the same page", true);
    token = nextToken;
  }
}
