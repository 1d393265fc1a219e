import { dataOf, itemsOf, type Call } from './call.ts';
import * as sdk from './generated/sdk.gen.ts';
import type * as types from './generated/types.gen.ts';

/** The operations of tools. */
export function toolsOf(on: Call) {
  const at = (id: string) => ({ ...on, path: { tool_id: id } });
  return {
    create: (body: types.ToolCreate) => dataOf(sdk.createTool({ ...on, body })),
    /** Creates the tool, or changes the tool of its name. */
    upsert: (body: types.ToolCreate) => dataOf(sdk.upsertTool({ ...on, body })),
    retrieve: (id: string) => dataOf(sdk.retrieveTool(at(id))),
    list: (query: types.ListToolsData['query'] = {}) =>
      itemsOf((after) => sdk.listTools({ ...on, query: { ...query, ...after } })),
    update: (id: string, body: types.ToolUpdate) => dataOf(sdk.updateTool({ ...at(id), body })),
    delete: (id: string) => dataOf(sdk.deleteTool(at(id))),
    addBaseTools: () => dataOf(sdk.addBaseTools(on)),
  };
}
