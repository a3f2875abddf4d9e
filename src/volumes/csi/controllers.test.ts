import { expect, it } from "vitest";
import type { CsiInfo } from "../../contracts/csi-volumes.ts";
import { controllersFor } from "./controllers.ts";
import type { CsiPlugins } from "./plugins.ts";

const need = { flag: "SupportsCreateDelete", lacking: "plugin does not support creation" } as const;

/** A plugin whose controllers run on the nodes `n0`, `n1`, and so on. */
const pluginWith = (...flags: readonly (boolean | undefined)[]): CsiPlugins => {
  const controllers = flags.map((flag, at) => {
    const ControllerInfo = flag === undefined ? {} : { SupportsCreateDelete: flag };
    return [`n${at}`, { ControllerInfo } as unknown as CsiInfo] as const;
  });
  return {
    find: () => ({ controllersExpected: flags.length, controllersHealthy: flags.length }),
    controllers: () => controllers,
  } as unknown as CsiPlugins;
};

it("selects the controllers that report the capability", () => {
  const plugins = pluginWith(true, false, undefined, true);
  expect(controllersFor(plugins, "p", need)).toEqual({ ok: true, value: ["n0", "n3"] });
  expect(controllersFor(plugins, "p", null)).toEqual({ ok: true, value: ["n0", "n1", "n2", "n3"] });
});

it("is refused when no controller reports the capability", () => {
  expect(controllersFor(pluginWith(false, undefined), "p", need)).toMatchObject({
    ok: false,
    reason: "unsupported",
    message: need.lacking,
  });
});
