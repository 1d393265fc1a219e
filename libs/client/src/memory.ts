import { dataOf, itemsOf, type Call } from './call.ts';
import * as sdk from './generated/sdk.gen.ts';
import type * as types from './generated/types.gen.ts';

/** The operations of memory blocks and their revisions. */
export function memoryOf(on: Call) {
  const at = (id: string) => ({ ...on, path: { block_id: id } });
  return {
    create: (body: types.BlockCreate) => dataOf(sdk.createBlock({ ...on, body })),
    retrieve: (blockId: string) => dataOf(sdk.retrieveBlock(at(blockId))),
    list: (query: types.ListBlocksData['query'] = {}) =>
      itemsOf((after) => sdk.listBlocks({ ...on, query: { ...query, ...after } })),
    update: (blockId: string, body: types.BlockUpdate) => dataOf(sdk.updateBlock({ ...at(blockId), body })),
    delete: (blockId: string) => dataOf(sdk.deleteBlock(at(blockId))),
    ofAgent: (agentId: string, query: types.ListAgentBlocksData['query'] = {}) =>
      itemsOf((after) =>
        sdk.listAgentBlocks({ ...on, path: { agent_id: agentId }, query: { ...query, ...after } }),
      ),
    byLabel: (agentId: string, label: string) =>
      dataOf(sdk.retrieveAgentBlock({ ...on, path: { agent_id: agentId, label } })),
    updateByLabel: (agentId: string, label: string, body: types.BlockUpdate) =>
      dataOf(sdk.updateAgentBlock({ ...on, path: { agent_id: agentId, label }, body })),
    attach: (agentId: string, blockId: string) =>
      dataOf(sdk.attachBlock({ ...on, path: { agent_id: agentId, block_id: blockId } })),
    detach: (agentId: string, blockId: string) =>
      dataOf(sdk.detachBlock({ ...on, path: { agent_id: agentId, block_id: blockId } })),
    agents: (blockId: string, query: types.ListAgentsOfBlockData['query'] = {}) =>
      itemsOf((after) => sdk.listAgentsOfBlock({ ...at(blockId), query: { ...query, ...after } })),
    revisions: (blockId: string, query: types.ListBlockRevisionsData['query'] = {}) =>
      itemsOf((page) =>
        sdk.listBlockRevisions({
          ...at(blockId),
          query: { ...query, ...(page !== undefined && { after: Number(page.after) }) },
        }),
      ),
    revision: (blockId: string, revision: number) =>
      dataOf(sdk.retrieveBlockRevision({ ...on, path: { block_id: blockId, revision } })),
    diff: (blockId: string, query: types.DiffBlockData['query']) =>
      dataOf(sdk.diffBlock({ ...at(blockId), query })),
    revert: (blockId: string, body: types.RevertBlockData['body']) =>
      dataOf(sdk.revertBlock({ ...at(blockId), body })),
  };
}
