import { api } from "../../api/client.ts";
import { Empty, Loaded } from "../../components/states.tsx";
import { DataTable } from "../../components/table.tsx";
import { useResource } from "../../lib/resource.ts";

export function Methods() {
  const methods = useResource(["auth-methods"], async (signal) =>
    Object.entries((await api("GET /v1/sys/auth", { signal })).data).map(([path, mount]) => ({ path, ...mount })),
  );
  return (
    <Loaded resource={methods} label="Auth methods">
      {(rows) => (
        <DataTable
          label="Auth methods"
          rows={rows}
          keyOf={({ path }) => path}
          columns={[
            { key: "path", label: "Path", render: ({ path }) => <span class="mono">auth/{path}</span> },
            { key: "type", label: "Type", width: "160px", render: ({ type }) => type },
            { key: "description", label: "Description", isMinor: true, render: ({ description }) => description },
            {
              key: "accessor",
              label: "Accessor",
              isMinor: true,
              render: ({ accessor }) => <span class="mono">{accessor}</span>,
            },
          ]}
          empty={<Empty title="No auth method" />}
        />
      )}
    </Loaded>
  );
}
