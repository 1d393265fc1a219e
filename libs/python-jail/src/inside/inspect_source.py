# Reads a tool from its source without running it: name, description, parameters and the JSON Schema of its arguments.
import ast
import importlib.util
import re

SIMPLE = {'str': 'string', 'int': 'integer', 'float': 'number', 'bool': 'boolean', 'None': 'null'}
ARRAYS = ('list', 'List', 'tuple', 'Tuple', 'Sequence', 'Iterable')
OBJECTS = ('dict', 'Dict', 'Mapping')
INJECTED = ('agent_state', 'client')


class Problem(Exception):
    def __init__(self, node, text):
        self.line, self.column, self.text = node.lineno, node.col_offset + 1, text


def name_of(node):
    """Returns `List` for `List` and `typing.List`, and `None` for the constant."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Constant) and node.value is None:
        return 'None'
    return node.id if isinstance(node, ast.Name) else ''


def members_of(node):
    """Returns the members of `A | B`, `Union[A, B]` and `Optional[A]`; of any other type, itself."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return members_of(node.left) + members_of(node.right)
    if isinstance(node, ast.Subscript) and name_of(node.value) in ('Union', 'Optional'):
        members = [member for argument in arguments_of(node) for member in members_of(argument)]
        return members + ([ast.Constant(None)] if name_of(node.value) == 'Optional' else [])
    return [node]


def arguments_of(node):
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def schema_of(node):
    """Returns the JSON Schema of an annotation. Raises Problem for a type without one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return schema_of(ast.copy_location(ast.parse(node.value, mode='eval').body, node))
    members = members_of(node)
    if len(members) > 1:
        return {'anyOf': [schema_of(member) for member in members]}
    name = name_of(node)
    if name in SIMPLE:
        return {'type': SIMPLE[name]}
    if name in ('Any', 'object'):
        return {}
    if name in ARRAYS + OBJECTS:
        return {'type': 'array' if name in ARRAYS else 'object'}
    if isinstance(node, ast.Subscript):
        return schema_of_subscript(node, name_of(node.value), arguments_of(node))
    raise Problem(node, f'the type {ast.unparse(node)} has no JSON Schema')


def schema_of_subscript(node, name, arguments):
    if name in ARRAYS:
        return {'type': 'array', 'items': schema_of(arguments[0])}
    if name in OBJECTS and len(arguments) == 2:
        return {'type': 'object', 'additionalProperties': schema_of(arguments[1])}
    if name == 'Annotated':
        schema = schema_of(arguments[0])
        texts = [item.value for item in arguments[1:] if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        return {**schema, 'description': texts[0]} if texts else schema
    if name == 'Literal':
        values = [ast.literal_eval(argument) for argument in arguments]
        if all(isinstance(value, str) for value in values):
            return {'type': 'string', 'enum': values}
        if all(value is None or isinstance(value, (str, int)) for value in values):
            return {'enum': values}
    raise Problem(node, f'the type {ast.unparse(node)} has no JSON Schema')


def read_docstring(function):
    """Returns the text before the first section of a Google-style docstring, and the texts of its arguments by name."""
    text = ast.get_docstring(function) or ''
    head, *rest = re.split(r'^(?=(?:Args|Arguments|Parameters|Returns?|Yields|Raises|Examples?|Notes?):\s*$)', text, flags=re.M)
    section = next((part for part in rest if part.startswith(('Args', 'Arguments', 'Parameters'))), '')
    lines = section.splitlines()[1:]
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    texts, current = {}, ''
    for line in lines:
        entry = re.match(r'\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)', line[indent:])
        if entry:
            current, texts[entry[1]] = entry[1], entry[2].strip()
        elif current and line.strip():
            texts[current] = (texts[current] + ' ' + line.strip()).strip()
    return ' '.join(head.split()) if head.count('\n\n') == 0 else head.strip(), texts


def parameters_of(function):
    """Returns the parameters as pairs of node and whether they have a default. Raises Problem for a form without a name."""
    form = function.args
    for node, text in (
        (form.vararg, 'takes *{}: name each parameter'),
        (form.kwarg, 'takes **{}: name each parameter'),
        (form.posonlyargs[0] if form.posonlyargs else None, 'takes {} by position alone: remove the /'),
    ):
        if node is not None:
            raise Problem(node, f'the function {text.format(node.arg)}')
    plain = len(form.args) - len(form.defaults)
    return [(node, at >= plain) for at, node in enumerate(form.args)] + [
        (node, default is not None) for node, default in zip(form.kwonlyargs, form.kw_defaults)
    ]


def read_schema(parameters, texts):
    properties = {}
    for node, has_default in parameters:
        if node.annotation is None:
            raise Problem(node, f'the parameter {node.arg} has no type')
        schema = schema_of(node.annotation)
        some = [member for member in schema.get('anyOf', []) if member != {'type': 'null'}]
        # An argument with a default is left out rather than null.
        if has_default and some:
            schema = some[0] if len(some) == 1 else {'anyOf': some}
        properties[node.arg] = {**schema, 'description': texts[node.arg]} if texts.get(node.arg) else schema
    return {
        'type': 'object',
        'properties': properties,
        'required': [node.arg for node, has_default in parameters if not has_default],
    }


def check_imports(tree):
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ['.' if node.level else node.module or '']
        for name in names:
            top = name.split('.')[0]
            if top == '' or importlib.util.find_spec(top) is None:
                raise Problem(node, f'{name} is not in the standard library, and packages are not installed')


def find_function(tree, wanted):
    functions = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if wanted is not None:
        functions = [node for node in functions if node.name == wanted]
    if functions:
        return functions[-1]
    end = ast.Constant(None, lineno=1, col_offset=0)
    raise Problem(end, f'there is no function {wanted}' if wanted else 'there is no function')


def inspect(source, wanted):
    tree = ast.parse(source)
    check_imports(tree)
    function = find_function(tree, wanted)
    parameters = parameters_of(function)
    for node, _ in parameters:
        if node.arg in INJECTED and (node.arg == 'agent_state' or name_of(node.annotation) not in SIMPLE):
            raise Problem(node, f"the parameter {node.arg} is not supported: take the values that the tool needs as arguments")
    description, texts = read_docstring(function)
    found = {
        'name': function.name,
        'description': description,
        'parameters': [{'name': node.arg, 'required': not has_default} for node, has_default in parameters],
    }
    try:
        return {**found, 'schema': read_schema(parameters, texts)}
    except Problem as problem:
        return {**found, 'schema_problem': told(problem)}
    except (SyntaxError, ValueError):
        return {**found, 'schema_problem': {'problem': 'a type is not readable', 'line': function.lineno, 'column': 1}}


def told(problem):
    return {'problem': problem.text, 'line': problem.line, 'column': problem.column}


def answer():
    try:
        return inspect(request['source'], request['name'])
    except Problem as problem:
        return told(problem)
    except SyntaxError as error:
        return {'problem': error.msg, 'line': error.lineno or 1, 'column': max(1, error.offset or 1)}
    except ValueError as error:
        return {'problem': str(error)}
    except (RecursionError, MemoryError):
        return {'problem': 'the source is nested too deeply or too complex'}


end('succeeded', json.dumps(answer()))
