import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useRef, type ReactNode } from 'react';

/** A column of a table. */
export interface Column<Item> {
  readonly head: string;
  readonly cell: (item: Item) => ReactNode;
  readonly isNumber?: boolean;
  /** Whether it is as narrow as a mark, with a head that only a screen reader is told. */
  readonly isMark?: boolean;
  /** Left out on narrow screens. */
  readonly isWideOnly?: boolean;
}

interface ListTableProps<Item> {
  readonly items: readonly Item[];
  readonly columns: readonly Column<Item>[];
  readonly keyOf: (item: Item) => string;
  /** Names the table for a screen reader. */
  readonly label: string;
  /** Asks for the next page when its end comes near; undefined on the last page. */
  readonly onEnd?: (() => void) | undefined;
}

/** Height of a row before it is measured. Unit: pixels. */
const ROW_HEIGHT = 38;
/** Rows drawn beyond the window, and rows from the end at which the next page is asked for. */
const OVERSCAN = 20;

/** Shows a list of any length: only the rows in the window exist. */
export function ListTable<Item>({ items, columns, keyOf, label, onEnd }: ListTableProps<Item>) {
  const table = useRef<HTMLDivElement>(null);
  const rows = useWindowVirtualizer({
    count: items.length,
    estimateSize: () => ROW_HEIGHT,
    overscan: OVERSCAN,
    scrollMargin: table.current?.offsetTop ?? 0,
  });
  const shown = rows.getVirtualItems();
  const last = shown.at(-1);
  const isNearEnd = last !== undefined && last.index >= items.length - OVERSCAN;
  useEffect(() => {
    if (isNearEnd) onEnd?.();
  }, [isNearEnd, items.length, onEnd]);
  const above = (shown[0]?.start ?? 0) - rows.options.scrollMargin;
  const below = rows.getTotalSize() - ((last?.end ?? 0) - rows.options.scrollMargin);
  const classOf = ({ isNumber, isMark, isWideOnly }: Column<Item>): string =>
    [isNumber && 'number', isMark && 'mark', isWideOnly && 'wide-only'].filter(Boolean).join(' ');
  return (
    <div className="table" ref={table}>
      <table aria-label={label} aria-rowcount={items.length}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.head} scope="col" className={classOf(column)}>
                {column.isMark === true ? <span className="unseen">{column.head}</span> : column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {above > 0 && <Gap height={above} columns={columns.length} />}
          {shown.map(({ index }) => {
            const item = items[index];
            return item === undefined ? null : (
              <tr key={keyOf(item)} ref={rows.measureElement} data-index={index}>
                {columns.map((column) => (
                  <td
                    key={column.head}
                    className={classOf(column)}
                    // Stands before the number where rows are folded.
                    data-head={column.isNumber === true ? column.head : undefined}
                  >
                    {column.cell(item)}
                  </td>
                ))}
              </tr>
            );
          })}
          {below > 0 && <Gap height={below} columns={columns.length} />}
        </tbody>
      </table>
    </div>
  );
}

/** Stands for rows outside of the window. */
function Gap({ height, columns }: { readonly height: number; readonly columns: number }) {
  return (
    <tr aria-hidden>
      <td colSpan={columns} style={{ height, padding: 0, border: 0 }} />
    </tr>
  );
}
