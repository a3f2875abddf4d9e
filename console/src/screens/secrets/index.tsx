import { Page } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { useResource } from "../../lib/resource.ts";
import { mountHref, secretsPlace } from "./addresses.ts";
import { Browser } from "./browser.tsx";
import { Bulk } from "./bulk.tsx";
import { Compare } from "./compare.tsx";
import { MountList } from "./mounts.tsx";
import { readMounts } from "./reads.ts";

/** Secrets: mounts, and the tree of one mount with the selected secret. */
export default function SecretsScreen() {
  const mounts = useResource(["mounts"], readMounts);
  const { mount: path, secret, many, compared } = secretsPlace();
  if (path === null) return <MountList mounts={mounts} />;
  return (
    <Loaded resource={mounts} label="The mount">
      {({ kv }) => {
        const mount = kv.find((entry) => entry.path === path);
        if (mount && many !== null) return <Bulk key={`${path} ${many}`} mount={mount} folder={many} />;
        if (mount && compared !== null) return <Compare key={`${path} ${compared}`} mount={mount} path={compared} />;
        if (mount) return <Browser key={path} mount={mount} secret={secret} onMountChange={mounts.reload} />;
        return (
          <Page title={path} crumbs={[{ label: "Secrets", href: mountHref("") }]}>
            <Empty title="There is no such key/value mount in this namespace">
              It may be in another namespace, or your token has no right below it.
            </Empty>
          </Page>
        );
      }}
    </Loaded>
  );
}
