import { useState } from "preact/hooks";
import { go, href } from "../../app/router.ts";
import { confirmed } from "../../components/confirm.tsx";
import { Menu } from "../../components/menu.tsx";
import { Countdown } from "../../components/moments.tsx";
import { Page } from "../../components/page.tsx";
import { RemountDialog } from "../../components/remount.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { Status } from "../../components/status.tsx";
import { Tabs } from "../../components/tabs.tsx";
import { useResource } from "../../lib/resource.ts";
import { plural } from "../../lib/text.ts";
import { Config } from "./config.tsx";
import { Federation } from "./federation.tsx";
import { Leases } from "./leases.tsx";
import { countsOf, isConfigured, readConfig, readEngines, readLeaseCounts } from "./reads.ts";
import { Roles } from "./roles.tsx";

const FRESH_MS = 10_000;

const NO_LEASES = { leases: 0, irrevocable: 0 };

/** One engine: roles, leases, configuration, federation. */
export function EnginePage({ mount }: { readonly mount: string }) {
  const engines = useResource(["engines"], readEngines);
  const engine = engines.value?.find(({ path }) => path === mount);
  const config = useResource(
    ["config", mount, engine?.type.type],
    async (signal) => (engine ? readConfig(engine, signal) : null),
    { skip: !engine },
  );
  const [moves, setMoves] = useState(false);
  const counts = useResource(["lease counts"], readLeaseCounts, { everyMs: FRESH_MS });
  const crumbs = [{ label: "Credentials", href: href("credentials") }];
  if (engines.value && !engine)
    return (
      <Page title={mount} crumbs={crumbs}>
        <Empty
          title="There is no such engine that your token may see"
          actions={<a href={href("credentials")}>Go to the engines</a>}
        >
          It was disabled, or is in another namespace.
        </Empty>
      </Page>
    );
  const { leases, irrevocable } = counts.value && engine ? countsOf(counts.value, engine) : NO_LEASES;
  const disable = async (): Promise<void> => {
    const target = ["DELETE /v1/sys/mounts/{path}", { path: { path: mount } }] as const;
    const done = await confirmed(
      {
        title: `Disable ${mount}`,
        text: (
          <p>
            The engine's roles and configuration are deleted, and{" "}
            {counts.value ? `its ${plural(leases, "lease")}` : "all its leases"} revoked: software that uses those
            credentials stops working. This cannot be undone.
          </p>
        ),
        verb: "Disable engine",
        isDangerous: true,
        typed: mount,
      },
      ...target,
    );
    if (done) go(href("credentials"));
  };
  const settings = config.value;
  return (
    <Page
      title={mount}
      crumbs={crumbs}
      about={engine?.description || engine?.type.about}
      actions={
        <Menu
          label="More actions"
          items={[
            { label: "Move to another path", icon: "right", needs: "POST sys/remount", onSelect: () => setMoves(true) },
            {
              label: "Disable engine",
              icon: "trash",
              isDangerous: true,
              needs: `DELETE sys/mounts/${mount}`,
              onSelect: () => void disable(),
            },
          ]}
        />
      }
    >
      {moves && (
        <RemountDialog
          path={mount}
          onClose={() => setMoves(false)}
          onDone={(path) => go(href("credentials", [path]))}
        />
      )}
      <ul class="credentials-summary">
        {engine && settings !== undefined && (
          <li>
            {isConfigured(engine, settings) ? (
              <Status tone="ok">Configured</Status>
            ) : (
              <Status tone="warn">Not configured yet</Status>
            )}
          </li>
        )}
        {counts.value && <li>{leases > 0 ? <Status tone="info">{plural(leases, "lease")}</Status> : "0 leases"}</li>}
        {irrevocable > 0 && (
          <li>
            <Status tone="bad">{`${irrevocable} irrevocable`}</Status>
          </li>
        )}
        {settings?.root_password_expiration_date && (
          <li>
            Root secret ends in <Countdown to={settings.root_password_expiration_date} />
          </li>
        )}
      </ul>
      <Loaded resource={engines} label="Engines">
        {() =>
          engine && (
            <Tabs
              label="Parts of the engine"
              tabs={[
                {
                  name: "roles",
                  label: "Roles",
                  content: () => (
                    <Roles
                      engine={engine}
                      isReady={settings === undefined || isConfigured(engine, settings)}
                      onChanged={counts.reload}
                    />
                  ),
                },
                {
                  name: "leases",
                  label: "Leases",
                  badge: counts.value ? leases : undefined,
                  content: () => <Leases prefixes={[mount]} irrevocable={irrevocable} onChanged={counts.reload} />,
                },
                { name: "config", label: "Configuration", content: () => <Config engine={engine} config={config} /> },
                {
                  name: "federation",
                  label: "Federation",
                  content: () => <Federation engine={engine} config={config} />,
                },
              ]}
            />
          )
        }
      </Loaded>
    </Page>
  );
}
