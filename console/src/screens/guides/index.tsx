/** The guides of the service, written at build time from `docs/`; each is loaded when it is opened. */
import index from "guides:index";
import { type ComponentChild, h } from "preact";
import { useEffect, useState } from "preact/hooks";
import { readFile } from "../../api/transfer.ts";
import { href, place } from "../../app/router.ts";
import { SearchInput } from "../../components/field.tsx";
import { Page } from "../../components/page.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { DataTable } from "../../components/table.tsx";
import { useResource } from "../../lib/resource.ts";

type Node = string | readonly [tag: string, attributes: Record<string, string>, ...content: Node[]];

interface Entry {
  readonly name: string;
  readonly title: string;
  /** Address of its content. */
  readonly file: string;
}

/** Elements of text only, with the attributes that the build writes. */
const drawn = (node: Node): ComponentChild =>
  typeof node === "string"
    ? node
    : h(
        node[0],
        { ...node[1], ...(/^(pre|table)$/.test(node[0]) && { tabIndex: 0 }) },
        ...node.slice(2).map((part) => drawn(part as Node)),
      );

export default function GuidesScreen() {
  const name = place.value.segments.join("/");
  const [search, setSearch] = useState("");
  const list = useResource(["guides"], () => readFile<Entry[]>(index));
  const entry = list.value?.find((each) => each.name === name);
  const guide = useResource(["guide", name], () => readFile<Node[]>(entry?.file ?? ""), { skip: !entry });
  const at = place.value.query.get("at");
  useEffect(() => {
    if (guide.value && at) document.getElementById(at)?.scrollIntoView();
  }, [guide.value, at]);
  if (name !== "")
    return (
      <Page title={entry?.title ?? "Guide"} crumbs={[{ label: "Guides", href: href("guides") }]}>
        <Loaded resource={list} label="Guides">
          {() =>
            entry ? (
              <Loaded resource={guide} label="The guide">
                {(content) => <div class="card guides-text">{content.map(drawn)}</div>}
              </Loaded>
            ) : (
              <Empty title="There is no such guide" />
            )
          }
        </Loaded>
      </Page>
    );
  return (
    <Page title="Guides" about="How things are done, as of this version.">
      <SearchInput label="Filter guides" value={search} onChange={setSearch} />
      <Loaded resource={list} label="Guides">
        {(rows) => (
          <DataTable
            label="Guides"
            rows={rows.filter((row) => `${row.title} ${row.name}`.toLowerCase().includes(search.toLowerCase()))}
            keyOf={(row) => row.name}
            hrefOf={(row) => href("guides", row.name.split("/"))}
            columns={[
              { key: "title", label: "Guide", render: ({ title }) => title },
              { key: "part", label: "Part", width: "12rem", isMinor: true, render: (row) => row.name.split("/")[0] },
            ]}
            empty={<Empty title="No guide matches the filter" />}
          />
        )}
      </Loaded>
    </Page>
  );
}
