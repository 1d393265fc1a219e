// Who may import whom. Each folder lists what it may use; everything else of the repository is closed to it.
// Tests, scripts, proofs and the bench may import anything.

/** A folder of production code and the only folders of this repository that it may import. */
const order = [
  // libs/agent-core: base <- model <- machine <- decide; rules, tools, context and money (which decide may ask), memory,
  // progress and wire stand on the model, beside each other.
  only('libs/agent-core/src/base', []),
  only('libs/agent-core/src/model', ['libs/agent-core/src/base']),
  only('libs/agent-core/src/machine', ['libs/agent-core/src/base', 'libs/agent-core/src/model']),
  only('libs/agent-core/src/decide', [
    'libs/agent-core/src/base',
    'libs/agent-core/src/model',
    'libs/agent-core/src/machine',
    'libs/agent-core/src/rules',
    'libs/agent-core/src/tools',
    'libs/agent-core/src/context',
    'libs/agent-core/src/money',
  ]),
  ...['rules', 'memory', 'tools', 'context', 'money', 'progress', 'wire'].map((folder) =>
    only(`libs/agent-core/src/${folder}`, [
      'libs/agent-core/src/base',
      'libs/agent-core/src/model',
      'libs/agent-core/src/machine',
    ]),
  ),
  only('libs/agent-core/src', []),

  only('libs/services/src', []),
  only('libs/queue/src', ['libs/agent-core/src']),
  only('libs/egress/src', ['libs/agent-core/src']),
  only('libs/mcp/src', ['libs/agent-core/src', 'libs/egress/src']),
  only('libs/python-jail/src', []),
  // A jailed process reads it, so it imports nothing.
  only('libs/host-process/src', []),
  only('libs/db/src', ['libs/agent-core/src', 'libs/services/src']),
  only('libs/intake/src', ['libs/agent-core/src', 'libs/db/src', 'libs/queue/src', 'libs/services/src']),
  // A verb takes the transaction or connection it is given, and never another verb's work.
  only('libs/db/src/reads', [
    'libs/agent-core/src',
    'libs/db/src/(tables|connect|uuid-array|fragments)[.]ts$',
  ]),

  // apps/worker: flow-parts (what several flows use) <- flows <- queues, ticks <- main
  only('apps/worker/src/flow-parts', [
    'libs',
    'apps/worker/src/(?!main|config|queues|ticks|flows)',
    'apps/(tool|net|sandbox)-host/src/index.ts',
  ]),
  only('apps/worker/src/flows', [
    'libs',
    'apps/worker/src/(?!main|config|queues|ticks)',
    'apps/(tool|net|sandbox)-host/src/index.ts',
  ]),
  only('apps/worker/src/(queues|ticks)', [
    'libs',
    'apps/worker/src/(?!main|config)',
    'apps/(tool|net|sandbox)-host/src/index.ts',
  ]),
  only('apps/worker/src', ['libs', 'apps/(tool|net|sandbox)-host/src/index.ts']),

  // apps/api: routes <- server <- main
  only('apps/api/src/routes', ['libs', 'apps/api/src/(?!main|config|server)']),
  only('apps/api/src/server', ['libs', 'apps/api/src/(?!main|config)']),
  only('apps/api/src', ['libs']),

  // client stands alone; cli <- client
  only('libs/client/src', []),
  only('apps/cli/src', ['libs/client/src']),
  only('apps/dashboard/src', ['libs/client/src']),

  only('apps/tool-host/src', ['libs/host-process/src']),
  only('apps/net-host/src', [
    'libs/agent-core/src',
    'libs/egress/src',
    'libs/host-process/src',
    'libs/mcp/src',
  ]),
  only('apps/sandbox-host/src', ['libs/host-process/src']),
  only('apps/simulator/src', []),
];

function only(folder, allowed) {
  const inside = `${folder}(/|[.]ts$)`;
  return {
    name: `${folder} may import ${['itself', ...allowed].join(', ')}`,
    severity: 'error',
    from: { path: `^${inside}`, pathNot: '/(test|testing)/' },
    to: {
      path: '^(apps|libs)/[^/]+/(?!node_modules/)',
      pathNot: [inside, ...allowed].map((path) => `^${path}`),
    },
  };
}

module.exports = {
  forbidden: [
    ...order,
    {
      name: 'no cycles',
      comment: 'Two files that need each other are one thing, or a third one is missing.',
      severity: 'error',
      from: { pathNot: '^libs/client/src/generated/' },
      to: { circular: true },
    },
    {
      name: 'no flow imports the helper of another flow',
      comment: 'A helper of several flows belongs in flow-parts.',
      severity: 'error',
      from: { path: '^apps/worker/src/flows/([^/]+)/' },
      to: { path: '^apps/worker/src/flows/', pathNot: '^apps/worker/src/flows/$1/' },
    },
    {
      name: 'agent-core knows zod and ajv alone',
      severity: 'error',
      from: { path: '^libs/agent-core/src/' },
      to: {
        pathNot: [
          '^libs/agent-core/src/',
          '^node_modules/(zod|ajv|ajv-formats)/',
          '^libs/agent-core/node_modules/ajv/',
        ],
      },
    },
    {
      name: 'flows and routes reach nothing by themselves',
      comment: 'The provider, the tools and the bell are handed to them.',
      severity: 'error',
      from: { path: '^apps/(worker/src/(flows|flow-parts)|api/src/routes)/' },
      to: {
        path: [
          '^(node_modules/)?(bullmq|ioredis|pg|undici|@anthropic-ai/sdk)(/|$)',
          '^(node:)?(http|https|net|child_process|worker_threads)$',
        ],
      },
    },
    {
      name: 'config.ts is for main.ts alone',
      comment:
        'Other files receive values, whose types they may name, and never the environment. An index.ts may pass the ' +
        'parser on to scripts; the hosts have no main.ts: their environment is chosen where their processes and threads start.',
      severity: 'error',
      from: {
        path: '^apps/[^/]+/src/',
        pathNot: ['^apps/[^/]+/src/(main|index)[.]ts$', '^apps/(tool|net)-host/src/(client|threads)[.]ts$'],
      },
      to: { path: '^apps/[^/]+/src/config[.]ts$', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'no file imports main.ts',
      severity: 'error',
      from: { path: '^(apps|libs)/[^/]+/src/' },
      to: { path: '/src/main[.]tsx?$' },
    },
    {
      name: 'projects meet at package names',
      comment: "A relative path into another project goes round that project's exports.",
      severity: 'error',
      from: { path: '^(apps|libs)/([^/]+)/src/' },
      to: {
        path: '^(apps|libs)/',
        pathNot: '^$1/$2/',
        dependencyTypes: ['local'],
        dependencyTypesNot: ['aliased', 'npm'],
      },
    },
    {
      name: 'production code imports production dependencies',
      severity: 'error',
      // docker.ts imports testcontainers lazily, for development only: its tree has no place in an image.
      from: {
        path: '^(apps|libs)/[^/]+/src/',
        pathNot: '/testing/|^libs/services/src/docker[.]ts$',
      },
      to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'], dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'no orphans',
      comment: 'A file without imports that no file imports is left over. guest.mjs is read as text.',
      severity: 'error',
      from: {
        orphan: true,
        path: '^(apps|libs)/[^/]+/src/',
        pathNot: '/(index|main|config)[.]tsx?$|[.]d[.]ts$|^apps/sandbox-host/src/guest[.]mjs$',
      },
      to: {},
    },
    {
      name: 'everything resolves',
      comment: 'What only the bench needs is installed when it is run.',
      severity: 'error',
      from: { pathNot: '^bench/engines/pgboss-batch[.]ts$' },
      to: { couldNotResolve: true },
    },
    {
      name: 'production code does not import tests, scripts, proofs or the bench',
      severity: 'error',
      from: { path: '^(apps|libs)/[^/]+/src/' },
      to: { path: '^(scripts|test|proof|bench)/|^(apps|libs)/[^/]+/test/' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: ['^(apps|libs)/[^/]+/dist/', '^[.]data/'] },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default'],
      extensions: ['.ts', '.tsx', '.mjs', '.js', '.json'],
    },
    skipAnalysisNotInRules: true,
  },
};
