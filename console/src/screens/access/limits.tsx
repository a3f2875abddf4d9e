/** Quotas of requests and leases, and names that are locked after failed log-ins. */
import { api, wireRequest } from "../../api/client.ts";
import { Button } from "../../components/button.tsx";
import { confirmed } from "../../components/confirm.tsx";
import { ListScreen } from "../../components/list-screen.tsx";
import { Card } from "../../components/page.tsx";
import type { Column } from "../../components/table.tsx";
import { useResource } from "../../lib/resource.ts";
import { LEASE_LIMITS, RATE_LIMITS } from "./kinds.ts";
import { SettingsList } from "./settings.tsx";

export const Limits = () => (
  <div class="stack">
    <div class="grid">
      <SettingsList kind={RATE_LIMITS} />
      <SettingsList kind={LEASE_LIMITS} />
    </div>
    <LockedUsers />
  </div>
);

interface Locked {
  readonly accessor: string;
  readonly alias: string;
  readonly namespace: string;
}

const READ = "GET /v1/sys/locked-users";
const UNLOCK = "POST /v1/sys/locked-users/{accessor}/unlock/{alias}";

async function readLocked(signal: AbortSignal): Promise<Locked[]> {
  const { data } = await api(READ, { signal });
  return data.by_namespace.flatMap(({ namespace_path, mount_accessors }) =>
    mount_accessors.flatMap(({ mount_accessor, alias_identifiers }) =>
      alias_identifiers.map((alias) => ({ accessor: mount_accessor, alias, namespace: namespace_path })),
    ),
  );
}

const optionsOf = ({ accessor, alias, namespace }: Locked) => ({
  path: { accessor, alias },
  namespace: namespace.replace(/\/$/, ""),
});

/** Names that wait after failed log-ins, by auth method. */
function LockedUsers() {
  const locked = useResource(["locked-users"], readLocked);
  const unlock = async (row: Locked): Promise<void> => {
    const options = optionsOf(row);
    const isDone = await confirmed(
      {
        title: `Unlock ${row.alias}`,
        text: "The name may log in again at once, and its failed log-ins are forgotten.",
        verb: "Unlock the name",
      },
      UNLOCK,
      options,
    );
    if (isDone) locked.reload();
  };
  const columns: readonly Column<Locked>[] = [
    { key: "alias", label: "Name", render: ({ alias }) => <span class="mono">{alias}</span> },
    { key: "method", label: "Auth method", render: ({ accessor }) => <code>{accessor}</code> },
    { key: "namespace", label: "Namespace", isMinor: true, render: ({ namespace }) => namespace || "root" },
    {
      key: "unlock",
      label: "Unlock",
      isLabelHidden: true,
      width: "8rem",
      align: "end",
      render: (row) => (
        <Button kind="quiet" needs={wireRequest(UNLOCK, optionsOf(row))} onClick={() => void unlock(row)}>
          Unlock
        </Button>
      ),
    },
  ];
  return (
    <Card title="Locked names" flush>
      <ListScreen
        label="Locked names"
        resource={locked}
        columns={columns}
        keyOf={({ accessor, alias }) => `${accessor} ${alias}`}
        none="No name is locked"
      >
        A name is locked for a while after several failed log-ins in a row.
      </ListScreen>
    </Card>
  );
}
