"""Reads the code of a step in the order in which it runs, and notes what happens to each global name.

What runs at once and what runs later are kept apart: a function's body counts when the function is used, a class's body
at once, its methods later. A branch that may not run binds nothing for certain.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from trainshed.pipelines.names.locals import arguments, bindings
from trainshed.pipelines.names.source import Code, line_magic
from trainshed.pipelines.names.usage import KNOWN, Carried, Level, Need, Usage, Use

_HARMLESS = frozenset(
    [
        "abs",
        "all",
        "any",
        "ascii",
        "bin",
        "bool",
        "bytes",
        "callable",
        "chr",
        "complex",
        "display",
        "divmod",
        "float",
        "format",
        "hasattr",
        "hash",
        "hex",
        "id",
        "int",
        "isinstance",
        "issubclass",
        "len",
        "max",
        "min",
        "oct",
        "ord",
        "pow",
        "print",
        "range",
        "repr",
        "round",
        "sorted",
        "str",
        "sum",
        "type",
    ]
)
"""Builtins that do not change what they are given."""
_UNSAVEABLE = {
    **dict.fromkeys(("open", "io.open", "gzip.open", "tempfile.NamedTemporaryFile"), "an open file"),
    **{f"threading.{name}": "a lock" for name in ("Lock", "RLock", "Condition", "Event", "Semaphore")},
    **dict.fromkeys(
        ("threading.Thread", "subprocess.Popen", "multiprocessing.Process"), "a thread or process"
    ),
    **dict.fromkeys(("socket.socket", "sqlite3.connect", "ssl.create_default_context"), "a connection"),
}
"""What calls return that no pickle takes."""
_SHELL_VARIABLE = re.compile(r"(?<!\$)\$([A-Za-z_]\w*)")
_SHELL_EXPRESSION = re.compile(r"(?<!\{)\{([^{}]+)\}")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Frame:
    """A scope inside the module: of a function, a class or a comprehension."""

    def __init__(self, kind: str, local: set[str], declared: set[str]) -> None:
        self.kind, self.local, self.declared = kind, local, declared


class Walker:
    """The state while code is read. Use `prelude` and `own` on it, in this order, then `usage`."""

    def __init__(self) -> None:
        self._definite: set[str] = set()
        self._possible: set[str] = set()
        self._deleted: set[str] = set()
        self._needs: dict[str, Need] = {}
        self._mentions: dict[str, Level] = {}
        self._carries: dict[str, Carried] = {}
        self._imports: dict[str, str] = {}
        self._stars: list[str] = []
        self._unsaveable: dict[str, tuple[str, int, int]] = {}
        self._aliases: dict[str, tuple[str, int, int]] = {}
        self._lines: dict[str, tuple[int, int]] = {}
        self._generators: set[str] = set()
        self._classes: set[str] = set()
        self._prelude: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self._frames: list[_Frame] = []
        self._later: Carried | None = None
        self._using: set[str] = set()
        self._branches = 0
        self._cell = 0
        self._line = 0

    def copy(self) -> Walker:
        """Return a walker in the same state, to go on with another step's own code."""
        twin = Walker()
        twin._carries, twin._prelude = dict(self._carries), dict(self._prelude)
        twin._stars, twin._generators, twin._classes = (
            list(self._stars),
            set(self._generators),
            set(self._classes),
        )
        return twin

    def prelude(self, codes: Sequence[Code]) -> tuple[Need, ...]:
        """Read the imports and functions cells. Return what they need at once, and no cell of theirs defines."""
        self._read(codes)
        needs = tuple(n for n in self._needs.values() if not n.maybe)
        self._prelude = {name: self._kinds.get(name, "variable") for name in self._possible}
        for names in (self._definite, self._possible, self._deleted):
            names.clear()
        for notes in (self._needs, self._mentions, self._imports, self._kinds):
            notes.clear()
        for places in (self._unsaveable, self._aliases, self._lines):
            places.clear()
        return needs

    def own(self, codes: Sequence[Code]) -> None:
        """Read the step's own cells."""
        self._read(codes)
        for name in sorted(self._possible):
            for later, use in sorted(self._carries.get(name, {}).items()):
                # Defined here, perhaps never called here: the name is needed, but not changed.
                self._mention(later, Level.READ)
                if later not in self._possible and later not in self._prelude:
                    self._cell, self._line = self._lines.get(name, (self._cell, self._line))
                    self._need(later, maybe=not use.reads or later in KNOWN)

    def usage(self) -> Usage:
        """Return what was noted."""
        own = self._possible
        return Usage(
            needs=tuple(self._needs.values()),
            bound=frozenset(own),
            uncertain=frozenset(own - self._definite),
            deleted=frozenset(self._deleted - own),
            mentions=self._mentions,
            carries={name: carried for name, carried in self._carries.items() if carried},
            imports={name: text for name, text in self._imports.items() if name in own},
            stars=tuple(dict.fromkeys(self._stars)),
            unsaveable=self._unsaveable,
            aliases=self._aliases,
            prelude_variables=frozenset(n for n, kind in self._prelude.items() if kind == "variable"),
            lines=self._lines,
        )

    def _read(self, codes: Sequence[Code]) -> None:
        for code in codes:
            self._cell, self._line = code.cell, 1
            self._block(code.body)
            for name in code.binds:
                self._store(name)

    # Names.

    def _is_local(self, name: str) -> bool:
        for frame in reversed(self._frames):
            if frame.kind == "class" and frame is not self._frames[-1]:
                continue
            if name in frame.declared:
                return False
            if name in frame.local:
                return True
        return False

    def _mention(self, name: str, level: Level) -> None:
        self._mentions[name] = max(level, self._mentions.get(name, Level.READ))

    def _need(self, name: str, maybe: bool) -> None:
        known = self._needs.get(name)
        if known is not None and (maybe or not known.maybe):
            return
        bound = known.bound if known is not None else frozenset(self._definite)
        self._needs[name] = Need(name, self._cell, self._line, maybe, name in self._prelude, bound)

    def _load(self, name: str, level: Level) -> Carried:
        """Note that a name is read, and return what its object carries."""
        if self._is_local(name):
            return {}
        if self._later is not None:
            known = self._later.get(name)
            self._later[name] = Use(max(level, known.level if known else Level.READ), True)
            return {}
        self._mention(name, level)
        if name not in self._definite:
            self._need(name, maybe=name in self._possible or name in self._prelude or name in KNOWN)
        return self._carries.get(name, {})

    def _use(self, carried: Carried) -> None:
        """Note that what an object carries may run now."""
        if self._later is not None:
            return
        for name, use in carried.items():
            if name in self._using:
                continue
            self._using.add(name)
            self._mention(name, use.level)
            if name not in self._definite:
                self._need(
                    name,
                    maybe=not use.reads or name in self._possible or name in self._prelude or name in KNOWN,
                )
            if use.level == Level.BIND:
                self._possible.add(name)
                self._kinds[name] = "variable"
                self._lines.setdefault(name, (self._cell, self._line))
            self._use(self._carries.get(name, {}))
            self._using.discard(name)

    def _store(self, name: str, carried: Carried | None = None, kind: str = "variable") -> None:
        if self._frames and not self._is_global_here(name):
            return
        if self._later is not None:
            known = self._later.get(name)
            self._later[name] = Use(Level.BIND, known.reads if known else False)
            return
        self._mention(name, Level.BIND)
        self._definite.add(name)
        self._possible.add(name)
        self._deleted.discard(name)
        self._kinds[name] = kind
        self._lines[name] = (self._cell, self._line)
        for state in (self._imports, self._unsaveable, self._aliases):
            state.pop(name, None)
        self._generators.discard(name)
        self._classes.discard(name)
        self._carries[name] = dict(carried or {})

    def _is_global_here(self, name: str) -> bool:
        for frame in reversed(self._frames):
            if name in frame.declared:
                return True
            if frame.kind != "comprehension":
                return False
        return True

    def _delete(self, name: str) -> None:
        self._load(name, Level.READ)
        if self._later is not None or self._is_local(name):
            return
        self._mention(name, Level.BIND)
        self._definite.discard(name)
        if not self._branches:
            self._possible.discard(name)
            self._deleted.add(name)

    # Statements.

    def _block(self, statements: Sequence[ast.stmt]) -> bool:
        """Read statements in order; say whether the block ends by leaving (raise, return, break, continue)."""
        for statement in statements:
            self._line = statement.lineno
            if self._statement(statement):
                return True
        return False

    def _statement(self, node: ast.stmt) -> bool:
        match node:
            case ast.Expr(value=value):
                self._use(self._expression_statement(value))
            case ast.Assign(targets=targets, value=value):
                carried = self._expr(value, Level.TOUCH)
                for target in targets:
                    self._target(target, carried, value)
            case ast.AnnAssign(target=target, value=value, annotation=annotation):
                self._use(self._expr(annotation, Level.READ))
                if value is not None:
                    self._target(target, self._expr(value, Level.TOUCH), value)
            case ast.AugAssign(target=target, value=value):
                self._use(self._expr(value, Level.READ))
                if isinstance(target, ast.Name):
                    self._load(target.id, Level.BIND)
                self._target(target, {}, value)
            case ast.Delete(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name):
                        self._delete(target.id)
                    else:
                        self._target(target, {}, None)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node)
            case ast.ClassDef():
                self._class(node)
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.If(test=test, body=body, orelse=orelse):
                self._use(self._expr(test, Level.READ))
                return self._alternatives([body, orelse])
            case ast.For() | ast.AsyncFor():
                self._for(node)
            case ast.While(test=test, body=body, orelse=orelse):
                self._use(self._expr(test, Level.READ))
                self._alternatives([body, orelse])
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    carried = self._expr(item.context_expr, Level.TOUCH)
                    self._use(carried)
                    if item.optional_vars is not None:
                        self._target(item.optional_vars, carried, item.context_expr)
                return self._block(body)
            case (
                ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final)
                | ast.TryStar(body=body, handlers=handlers, orelse=orelse, finalbody=final)
            ):
                self._try(body, handlers, orelse)
                return self._block(final)
            case ast.Match(subject=subject, cases=cases):
                self._use(self._expr(subject, Level.TOUCH))
                with self._maybe():
                    for case in cases:
                        self._pattern(case)
            case ast.Return(value=value):
                if value is not None:
                    self._use(self._expr(value, Level.TOUCH))
                return True
            case ast.Raise(exc=exc, cause=cause):
                for part in (exc, cause):
                    if part is not None:
                        self._use(self._expr(part, Level.TOUCH))
                return True
            case ast.Assert(test=test, msg=message):
                for part in (test, message):
                    if part is not None:
                        self._use(self._expr(part, Level.READ))
            case ast.Break() | ast.Continue():
                return True
            case _:
                name = getattr(node, "name", None)  # `type X = ...`, which Python 3.11 does not know
                if isinstance(name, ast.Name):
                    self._store(name.id)
        return False

    def _expression_statement(self, value: ast.expr) -> Carried:
        """A call whose result nobody takes is made for its effect: `x.append(1)` changes x."""
        inner = value.value if isinstance(value, ast.Await) else value
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            self._use(self._expr(inner.func.value, Level.CHANGE))
        return self._expr(value, Level.READ)

    @contextmanager
    def _maybe(self) -> Iterator[None]:
        """What is bound inside is not bound for certain afterwards."""
        before = set(self._definite)
        self._branches += 1
        yield
        self._branches -= 1
        self._definite &= before

    def _alternatives(self, branches: Sequence[Sequence[ast.stmt]]) -> bool:
        """Read branches of which one runs. Certain afterwards is what each that goes on has bound."""
        before = set(self._definite)
        ends: list[set[str]] = []
        self._branches += 1
        for branch in branches:
            self._definite = set(before)
            if not self._block(branch):
                ends.append(self._definite)
        self._branches -= 1
        self._definite = set.intersection(*ends) if ends else before
        return not ends

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        carried = self._expr(node.iter, Level.TOUCH)
        self._use(carried)
        certain = _runs_at_least_once(node)
        before = set(self._definite)
        self._branches += not certain
        self._target(node.target, carried, None)
        self._block(node.body)
        self._branches -= not certain
        if not certain:
            self._definite &= before
        with self._maybe():
            self._block(node.orelse)

    def _try(
        self, body: Sequence[ast.stmt], handlers: Sequence[ast.ExceptHandler], orelse: Sequence[ast.stmt]
    ) -> None:
        before = set(self._definite)
        self._branches += bool(handlers)
        ends: list[set[str]] = []
        if not self._block([*body, *orelse]):
            ends.append(set(self._definite))
        for handler in handlers:
            self._definite = set(before)
            if handler.type is not None:
                self._use(self._expr(handler.type, Level.READ))
            fresh = handler.name is not None and handler.name not in self._possible
            if handler.name is not None:
                self._store(handler.name)
            if not self._block(handler.body):
                ends.append(set(self._definite))
            if handler.name is not None and self._later is None and not self._is_local(handler.name):
                for end in ends:
                    end.discard(handler.name)
                if fresh:
                    self._possible.discard(handler.name)
        self._branches -= bool(handlers)
        self._definite = set.intersection(*ends) if ends else before

    def _pattern(self, case: ast.match_case) -> None:
        for node in ast.walk(case.pattern):
            if isinstance(node, ast.MatchValue):
                self._use(self._expr(node.value, Level.READ))
            elif isinstance(node, ast.MatchClass):
                self._use(self._expr(node.cls, Level.READ))
        for name in bindings([case.pattern])[0]:
            self._store(name)
        if case.guard is not None:
            self._use(self._expr(case.guard, Level.READ))
        self._block(case.body)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, ast.Import):
                text = ast.unparse(ast.Import([alias]))
                name = alias.asname or alias.name.partition(".")[0]
            else:
                if node.module == "__future__":
                    continue
                text = ast.unparse(ast.ImportFrom(node.module, [alias], node.level))
                name = alias.asname or alias.name
            if name == "*":
                self._stars.append(text)
                continue
            earlier = self._imports.get(name)
            self._store(name, kind="import")
            if self._later is None and not self._frames:
                dotted = isinstance(node, ast.Import) and alias.asname is None and earlier not in (None, text)
                self._imports[name] = f"{earlier}\n{text}" if dotted else text

    def _function(self, node: _Function) -> None:
        carried: Carried = {}
        for decorator in node.decorator_list:
            decoration = self._expr(decorator, Level.READ)
            self._use(decoration)
            carried |= decoration
        self._signature(node.args)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            if argument.annotation is not None:
                self._use(self._expr(argument.annotation, Level.READ))
        if node.returns is not None:
            self._use(self._expr(node.returns, Level.READ))
        carried |= self._body(arguments(node.args), node.body)
        self._store(node.name, carried, kind="definition")
        if self._later is None and not self._frames and _is_generator(node):
            self._generators.add(node.name)

    def _signature(self, args: ast.arguments) -> None:
        for default in (*args.defaults, *args.kw_defaults):
            if default is not None:
                self._use(self._expr(default, Level.TOUCH))

    def _body(self, names: set[str], body: Sequence[ast.stmt] | ast.expr) -> Carried:
        """Return the global names that a function's body uses when it runs."""
        statements = body if isinstance(body, Sequence) else [ast.Expr(body, lineno=body.lineno)]
        bound, declared = bindings(statements)
        outer, line, branches = self._later, self._line, self._branches
        definite = self._definite
        self._later = {} if outer is None else outer
        self._frames.append(_Frame("function", names | bound, declared))
        self._block(statements)
        self._frames.pop()
        later, self._later, self._line, self._branches = self._later, outer, line, branches
        self._definite = definite
        return {} if outer is not None else later

    def _class(self, node: ast.ClassDef) -> None:
        carried: Carried = {}
        for part in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            inherited = self._expr(part, Level.READ)
            self._use(inherited)
            carried |= inherited
        bound, declared = bindings(node.body)
        methods: Carried = {}
        self._frames.append(_Frame("class", bound, declared))
        for statement in node.body:
            self._line = statement.lineno
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and self._later is None:
                for decorator in statement.decorator_list:
                    self._use(self._expr(decorator, Level.READ))
                self._signature(statement.args)
                for name, use in self._body(arguments(statement.args), statement.body).items():
                    known = methods.get(name)
                    methods[name] = use if known is None or known.level < use.level else known
            else:
                self._statement(statement)
        self._frames.pop()
        self._store(node.name, carried | methods, kind="definition")
        if self._later is None and not self._frames:
            self._classes.add(node.name)

    def _target(self, node: ast.expr, carried: Carried, value: ast.expr | None) -> None:
        match node:
            case ast.Name(id=name):
                self._store(name, carried)
                if value is not None and self._later is None and not self._is_local(name):
                    self._describe(name, value)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
                for index, element in enumerate(elements):
                    matching = len(values) == len(elements) and not any(
                        isinstance(e, ast.Starred) for e in elements
                    )
                    self._target(element, carried, values[index] if matching else None)
            case ast.Starred(value=inner):
                self._target(inner, carried, None)
            case ast.Attribute(value=base):
                self._hold(base, carried)
                self._use(self._expr(base, Level.CHANGE))
            case ast.Subscript(value=base, slice=index):
                self._hold(base, carried)
                self._use(self._expr(base, Level.CHANGE))
                self._use(self._expr(index, Level.READ))
            case _:
                self._use(self._expr(node, Level.CHANGE))

    def _hold(self, base: ast.expr, carried: Carried) -> None:
        """`obj.callback = f`: from now on obj carries what f does."""
        while isinstance(base, ast.Attribute | ast.Subscript):
            base = base.value
        if carried and isinstance(base, ast.Name) and self._later is None and not self._is_local(base.id):
            self._carries[base.id] = self._carries.get(base.id, {}) | carried

    def _describe(self, name: str, value: ast.expr) -> None:
        """Note of a value just bound whether it can be saved, and whether it is another name's object."""
        if isinstance(value, ast.Name) and value.id not in KNOWN and value.id != name:
            self._aliases[name] = (value.id, self._cell, value.lineno)
        kind = None
        if isinstance(value, ast.GeneratorExp):
            kind = "a generator"
        elif isinstance(value, ast.Call):
            called = ast.unparse(value.func) if isinstance(value.func, ast.Name | ast.Attribute) else ""
            kind = "a generator" if called in self._generators else _UNSAVEABLE.get(called)
        if _is_constant(value):
            self._kinds[name] = "constant"
        if kind is not None:
            self._unsaveable[name] = (kind, self._cell, value.lineno)

    # Expressions.

    def _all(self, nodes: Sequence[ast.expr | None], level: Level) -> Carried:
        carried: Carried = {}
        for node in nodes:
            if node is not None:
                carried |= self._expr(node, level)
        return carried

    def _expr(self, node: ast.expr, level: Level) -> Carried:
        """Read an expression whose value is used in this way; return what that value carries."""
        match node:
            case ast.Name(id=name):
                return self._load(name, level)
            case ast.Constant():
                return {}
            case ast.Call():
                return self._call(node)
            case ast.Attribute(value=value):
                return self._expr(value, level)
            case ast.Subscript(value=value, slice=index):
                self._use(self._expr(index, Level.READ))
                return self._expr(value, level)
            case ast.BinOp(left=left, right=right):
                self._use(self._all([left, right], Level.READ))
                return {}
            case ast.UnaryOp(operand=operand):
                self._use(self._expr(operand, Level.READ))
                return {}
            case ast.Compare(left=left, comparators=others):
                self._use(self._all([left, *others], Level.READ))
                return {}
            case ast.BoolOp(values=values):
                carried = self._expr(values[0], level)
                with self._maybe():
                    return carried | self._all(values[1:], level)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._use(self._expr(test, Level.READ))
                with self._maybe():
                    return self._expr(body, level) | self._expr(orelse, level)
            case ast.Lambda(args=args, body=body):
                self._signature(args)
                return self._body(arguments(args), body)
            case (
                ast.ListComp(elt=element, generators=generators)
                | ast.SetComp(elt=element, generators=generators)
            ):
                return self._comprehension(generators, [element], level)
            case ast.GeneratorExp(elt=element, generators=generators):
                return self._comprehension(generators, [element], level)
            case ast.DictComp(key=key, value=value, generators=generators):
                return self._comprehension(generators, [key, value], level)
            case ast.NamedExpr(target=target, value=value):
                carried = self._expr(value, Level.TOUCH)
                self._target(target, carried, value)
                return carried
            case ast.JoinedStr(values=values):
                return self._all(values, Level.READ)
            case ast.FormattedValue(value=value, format_spec=spec):
                self._use(self._all([value, spec], Level.READ))
                return {}
            case ast.Dict(keys=keys, values=values):
                return self._all([*keys, *values], level)
            case _:
                nodes = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
                return self._all(nodes, level)

    def _comprehension(
        self, generators: Sequence[ast.comprehension], elements: Sequence[ast.expr], level: Level
    ) -> Carried:
        first = self._expr(generators[0].iter, Level.TOUCH)
        self._use(first)
        bound = bindings([generator.target for generator in generators])[0]
        self._frames.append(_Frame("comprehension", bound, set()))
        with self._maybe():
            for index, generator in enumerate(generators):
                if index:
                    self._use(self._expr(generator.iter, Level.TOUCH))
                self._use(self._all(generator.ifs, Level.READ))
            carried = self._all(elements, max(level, Level.TOUCH))
        self._frames.pop()
        return first | carried

    def _call(self, node: ast.Call) -> Carried:
        harmless = isinstance(node.func, ast.Name) and node.func.id in _HARMLESS
        if isinstance(node.func, ast.Attribute):
            if self._ipython(node, node.func):
                return {}
            called = self._expr(node.func.value, Level.TOUCH)
        else:
            called = self._expr(node.func, Level.READ)
        given = self._all(
            [*node.args, *(k.value for k in node.keywords)], Level.READ if harmless else Level.TOUCH
        )
        self._use(called)
        self._use(given)
        return given | self._instance(node.func, called)

    def _instance(self, callee: ast.expr, called: Carried) -> Carried:
        """An instance carries what its class's methods use; what a plain function returns carries none of it."""
        if not isinstance(callee, ast.Name) or self._is_local(callee.id) or self._later is not None:
            return {}
        if callee.id in self._classes:
            return called
        known = callee.id in self._possible or callee.id in self._prelude or callee.id in KNOWN
        # Perhaps a class of another step: by convention its name begins with a capital letter.
        is_class = not known and callee.id.lstrip("_")[:1].isupper()
        return {callee.id: Use(Level.READ)} if is_class else {}

    def _ipython(self, node: ast.Call, function: ast.Attribute) -> bool:
        """Read what a magic or a shell line does to names, if the call is one."""
        inner = function.value
        if not (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Name)
            and inner.func.id == "get_ipython"
        ):
            return False
        texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if function.attr in ("system", "getoutput") and texts:
            for expression in _SHELL_EXPRESSION.findall(texts[0]):
                self._inline(expression)
            for name in _SHELL_VARIABLE.findall(texts[0]):
                if not self._is_local(name) and self._later is None:
                    self._mention(name, Level.READ)
                    if name not in self._definite:
                        self._need(name, maybe=True)
        elif function.attr == "run_line_magic" and len(texts) == 2:
            line = self._line
            for statement in line_magic(*texts):
                self._statement(statement)
            self._line = line
        return True

    def _inline(self, expression: str) -> None:
        try:
            parsed = ast.parse(expression.strip(), mode="eval")
        except (SyntaxError, ValueError):
            return
        self._use(self._expr(parsed.body, Level.READ))


def _is_constant(node: ast.expr) -> bool:
    """Return whether a value is a number, a text or a tuple of these, which nothing can change."""
    if isinstance(node, ast.UnaryOp):
        return _is_constant(node.operand)
    if isinstance(node, ast.Tuple):
        return all(_is_constant(element) for element in node.elts)
    return isinstance(node, ast.Constant)


def _is_generator(node: _Function) -> bool:
    pending: list[ast.AST] = list(node.body)
    while pending:
        current = pending.pop()
        if isinstance(current, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(current)
    return False


def _runs_at_least_once(node: ast.For | ast.AsyncFor) -> bool:
    leaves = any(isinstance(n, ast.Break | ast.Continue) for s in node.body for n in ast.walk(s))
    match node.iter:
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            full = any(not isinstance(e, ast.Starred) for e in elements)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
            full = count > 0
        case _:
            full = False
    return full and not leaves
