"""What becomes of notebooks with the structure of Kale's own examples: the edges and names that Kale gives them.

Their code is ours and stands for what uses the same names; steps, tags, functions and where each name is set and
read are as there. Where Kale differs, a comment says so.
"""

from __future__ import annotations

import pytest

from tests.unit.notebook_builder import Cell, compiled, edges

OPEN_VACCINE: list[Cell] = [
    ("imports", "import frames\nimport layers\nfrom texts import Tokenizer"),
    (
        "pipeline-parameters",
        "LR = 0.001\nEPOCHS = 10\nBATCH_SIZE = 64\nEMBED_DIM = 100\nHIDDEN_DIM = 128\nDROPOUT = 0.2\n"
        "SP_DROPOUT = 0.3\nTRAIN_SEQUENCE_LENGTH = 107",
    ),
    ("step:load_data", "train_df = frames.read('train')\ntest_df = frames.read('test')"),
    ("step:preprocess_data prev:load_data", "train_df = train_df[train_df.quality == 1]"),
    ("", "tokenizer = Tokenizer()\nvocab_size = len(tokenizer.words) + 1"),
    ("", "def process_features(frame):\n    return [tokenizer.encode(text) for text in frame.texts]"),
    ("", "x_train = process_features(train_df)\ny_train = train_df.labels"),
    ("", "short = test_df.query('n == 107')\nunprocessed_x_public_test = short.copy()"),
    ("", "unprocessed_x_private_test = test_df.query('n == 130').copy()"),
    (
        "step:model_training prev:preprocess_data",
        "def gru_layer(size, dropout):\n    return layers.gru(size, dropout)",
    ),
    ("", "def lstm_layer(size, dropout):\n    return layers.lstm(size, dropout)"),
    (
        "",
        "def build_model(vocab_size, length=int(TRAIN_SEQUENCE_LENGTH), embed=int(EMBED_DIM),\n"
        "                hidden=int(HIDDEN_DIM), dropout=float(DROPOUT), space=float(SP_DROPOUT)):\n"
        "    return layers.stack(embed, gru_layer(hidden, dropout), lstm_layer(hidden, space), vocab_size, length)",
    ),
    (
        "",
        "model = build_model(vocab_size)\nmodel.fit(x_train, y_train, batch=BATCH_SIZE, epochs=EPOCHS, rate=LR)",
    ),
    ("step:model_evaluation prev:model_training", "public = build_model(vocab_size, length=107)"),
    ("", "public.weights = model.weights\npublic(process_features(unprocessed_x_public_test))"),
    ("", "public(process_features(unprocessed_x_private_test))"),
]

CIFAR10: list[Cell] = [
    ("imports", "import nets"),
    ("pipeline-parameters", "TRAIN_STEPS = 2"),
    ("step:dataprocessing", "trainloader = nets.loader('train')\ntestloader = nets.loader('test')"),
    ("step:train prev:dataprocessing", "net = nets.Net()"),
    (
        "",
        "for epoch in range(TRAIN_STEPS):\n    for rows, labels in trainloader:\n        net.learn(rows, labels)",
    ),
    ("step:testontest prev:train", "rows, labels = next(iter(testloader))\nguessed = net(rows)"),
    ("step:testwhole prev:testontest", "right = sum(net(rows) == labels for rows, labels in testloader)"),
]

DOG_BREED: list[Cell] = [
    ("imports", "import files\nimport images\nimport nets"),
    ("pipeline-parameters", "nodes_number = 256\nlearning_rate = 0.0001"),
    (
        "step:load_data",
        "def load(path):\n    found = files.load(path)\n    return found.names, found.targets",
    ),
    ("", "train_files, train_targets = load('train')\nvalid_files, valid_targets = load('valid')"),
    (
        "",
        "test_files, test_targets = load('test')\ndog_names = files.names()\ndog_files_short = train_files[:100]",
    ),
    (
        "step:detect_dogs prev:load_data",
        "def path_to_tensor(path):\n    return images.tensor(path)\n\n"
        "def paths_to_tensor(paths):\n    return [path_to_tensor(path) for path in paths]",
    ),
    ("", "found = [path_to_tensor(path) for path in dog_files_short]"),
    (
        "step:cnn_from_scratch prev:detect_dogs",
        "train_tensors = paths_to_tensor(train_files)\nvalid_tensors = paths_to_tensor(valid_files)\n"
        "test_tensors = paths_to_tensor(test_files)",
    ),
    ("", "scratch = nets.fit(train_tensors, train_targets, valid_tensors, valid_targets)"),
    ("", "right = scratch.score(test_tensors, test_targets)"),
    (
        "step:cnn_vgg16 prev:detect_dogs",
        "vgg = nets.fit(train_targets, valid_targets)\nvgg.score(test_files, test_targets)",
    ),
    (
        "",
        "def vgg_breed(path):\n    return dog_names[vgg(path_to_tensor(path))]\n\nprint(vgg_breed('a dog'))",
    ),
    (
        "step:cnn_resnet50 prev:detect_dogs",
        "resnet = nets.fit(train_targets, valid_targets, nodes_number, learning_rate)",
    ),
    ("", "test_accuracy_resnet = resnet.score(test_files, test_targets)"),
    ("", "def breed(path):\n    return dog_names[resnet(path_to_tensor(path))]\n\nprint(breed('a dog'))"),
    ("pipeline-metrics", "print(test_accuracy_resnet)"),
]


def without(cells: list[Cell], *steps: str) -> list[Cell]:
    """Return cells with those of some steps tagged `skip`, as the notebook for Katib has them."""
    made: list[Cell] = []
    skipped = False
    for tags, source in cells:
        skipped = any(tags.startswith(f"step:{step} ") for step in steps) if tags else skipped
        made.append(("skip", source) if skipped else (tags, source))
    return made


def dog_breed_v2() -> list[Cell]:
    """Return the notebook whose classifiers are trained and tried side by side."""
    cells: list[Cell] = [
        ("imports", "import images\nimport nets"),
        (
            "pipeline-parameters",
            "LR = 6e-4\nBATCH_SIZE = 32\nNUMBER_OF_NODES = 256\nEPOCHS = 5\nIMG_SIZE = 224",
        ),
        ("step:data_processing", "size = int(IMG_SIZE)"),
    ]
    for part in ("train", "test", "valid"):
        body = f"    return images.flow('{part}', int(BATCH_SIZE), int(IMG_SIZE))"
        cells.append(("", f"def get_{part}_generator():\n{body}"))
    more = {"custom": ", NUMBER_OF_NODES", "vgg16": "", "resnet50": ", EPOCHS"}
    models = {"custom": "model", "vgg16": "vgg_model", "resnet50": "resnet_model"}
    gpu = "limit:nvidia.com/gpu:1"
    cells.append(
        (
            f"step:dog_detector prev:data_processing {gpu}",
            "for image in get_train_generator():\n    nets.dog(image)",
        )
    )
    for name, model in models.items():
        learn = f"{model} = nets.fit(get_train_generator(), get_valid_generator(), LR{more[name]})"
        cells.append((f"step:{name}_classifier prev:data_processing {gpu}", learn))
    for name, model in models.items():
        evaluated = "custome" if name == "custom" else name  # as it is spelt there
        limit = "" if name == "vgg16" else f" {gpu}"
        tags = f"step:{evaluated}_classifier_eval prev:{name}_classifier{limit}"
        cells.append((tags, f"accuracy_{name} = {model}.score(get_test_generator())"))
    return [*cells, ("pipeline-metrics", "print(accuracy_resnet50)")]


def iris(data: str, parameters: str, learn: str, score: str, learned: str) -> list[Cell]:
    """Return one of the notebooks with irises, which differ in their library."""
    return [
        ("imports", "import flowers\nimport learners"),
        ("pipeline-parameters", parameters),
        ("step:load_transform_data", data),
        ("step:train_model prev:load_transform_data", f"model = learners.fit({learn}, {learned})"),
        ("step:evaluate_model prev:load_transform_data prev:train_model", f"accuracy = model.score({score})"),
        ("pipeline-metrics", "print(accuracy)"),
    ]


TAXICAB: list[Cell] = [
    ("imports", "import rows\nimport validation\nKEYS = ('a', 'b')"),
    ("functions", "def vocabulary(key):\n    return f'vocab_{key}'"),
    ("pipeline-parameters", "BATCH_SIZE = 32\nHIDDEN_LAYER_SIZE = '1500'\nSTEPS = 3"),
    (
        "step:data_validation",
        "schema = validation.schema(rows.read('train'))\ncolumn_names = rows.names('train')",
    ),
    (
        "step:data_transformation prev:data_validation",
        "keys = [vocabulary(key) for key in KEYS]\ntrns_output = rows.transform(schema, column_names, keys)",
    ),
    (
        "step:train prev:data_transformation",
        "tf_transform_output = rows.output(trns_output)\n\ndef training_input_fn(output):\n"
        "    return rows.batches(output, trns_output, BATCH_SIZE)",
    ),
    ("", "estimator = rows.estimator(tf_transform_output, int(HIDDEN_LAYER_SIZE))"),
    ("", "estimator.train(lambda: training_input_fn(tf_transform_output), steps=STEPS)"),
    ("step:eval prev:train", "estimator.score(lambda: training_input_fn(tf_transform_output), trns_output)"),
]

_DOGS = "path_to_tensor, test_files, test_targets, train_targets, valid_targets"
_CELLS = {
    "open-vaccine": OPEN_VACCINE,
    "cifar10": CIFAR10,
    "dog-breed": DOG_BREED,
    "dog-breed-katib": without(DOG_BREED, "cnn_from_scratch", "cnn_vgg16"),
    "dog-breed-v2": dog_breed_v2(),
    "iris-sklearn": iris(
        "x_trn, x_tst, y_trn, y_tst = flowers.split()",
        "N_ESTIMATORS = 500\nMAX_DEPTH = 2",
        "x_trn, y_trn",
        "x_tst, y_tst",
        "N_ESTIMATORS, MAX_DEPTH",
    ),
    "iris-xgboost": iris(
        "x_trn, x_tst, y_trn, y_tst = flowers.split()\nD_trn = flowers.matrix(x_trn, y_trn)\n"
        "D_tst = flowers.matrix(x_tst, y_tst)",
        "ETA = 0.3\nMAX_DEPTH = 3\nOBJECTIVE = 'multi:softprob'\nSTEPS = 20",
        "D_trn",
        "D_tst, y_tst",
        "ETA, MAX_DEPTH, OBJECTIVE, STEPS",
    ),
    "taxicab": TAXICAB,
}
_GENERATORS = "get_train_generator, get_valid_generator"
EDGES = {
    "open-vaccine": [
        "load_data <-  |  | test_df, train_df | ",
        "preprocess_data <- load_data | test_df, train_df | process_features, tokenizer, unprocessed_x_private_test,"
        " unprocessed_x_public_test, vocab_size, x_train, y_train | ",
        "model_training <- preprocess_data | vocab_size, x_train, y_train | build_model, gru_layer, lstm_layer, model,"
        " vocab_size | BATCH_SIZE, DROPOUT, EMBED_DIM, EPOCHS, HIDDEN_DIM, LR, SP_DROPOUT, TRAIN_SEQUENCE_LENGTH",
        # Kale gives this step the parameters in the signature of build_model, which were read when it was defined.
        "model_evaluation <- model_training | build_model, gru_layer, lstm_layer, model, process_features, tokenizer,"
        " unprocessed_x_private_test, unprocessed_x_public_test, vocab_size |  | ",
    ],
    "cifar10": [
        "dataprocessing <-  |  | testloader, trainloader | ",
        "train <- dataprocessing | trainloader | net | TRAIN_STEPS",
        "testontest <- train | net, testloader | net, testloader | ",
        "testwhole <- testontest | net, testloader |  | ",
    ],
    "dog-breed": [
        "load_data <-  |  | dog_files_short, dog_names, test_files, test_targets, train_files, train_targets,"
        " valid_files, valid_targets | ",
        "detect_dogs <- load_data | dog_files_short | path_to_tensor, paths_to_tensor | ",
        "cnn_from_scratch <- detect_dogs | path_to_tensor, paths_to_tensor, test_files, test_targets, train_files,"
        " train_targets, valid_files, valid_targets |  | ",
        f"cnn_vgg16 <- detect_dogs | dog_names, {_DOGS} |  | ",
        f"cnn_resnet50 <- detect_dogs | dog_names, {_DOGS} |  | learning_rate, nodes_number",
    ],
    "dog-breed-katib": [
        "load_data <-  |  | dog_files_short, dog_names, test_files, test_targets, train_targets, valid_targets | ",
        "detect_dogs <- load_data | dog_files_short | path_to_tensor | ",
        f"cnn_resnet50 <- detect_dogs | dog_names, {_DOGS} |  | learning_rate, nodes_number",
    ],
    "dog-breed-v2": [
        "data_processing <-  |  | get_test_generator, get_train_generator, get_valid_generator |"
        " BATCH_SIZE, IMG_SIZE",
        "dog_detector <- data_processing | get_train_generator |  | BATCH_SIZE, IMG_SIZE",
        f"custom_classifier <- data_processing | {_GENERATORS} | model | BATCH_SIZE, IMG_SIZE, LR, NUMBER_OF_NODES",
        f"vgg16_classifier <- data_processing | {_GENERATORS} | vgg_model | BATCH_SIZE, IMG_SIZE, LR",
        f"resnet50_classifier <- data_processing | {_GENERATORS} | resnet_model | BATCH_SIZE, EPOCHS, IMG_SIZE, LR",
        "custome_classifier_eval <- custom_classifier | get_test_generator, model |  | BATCH_SIZE, IMG_SIZE",
        "vgg16_classifier_eval <- vgg16_classifier | get_test_generator, vgg_model |  | BATCH_SIZE, IMG_SIZE",
        "resnet50_classifier_eval <- resnet50_classifier | get_test_generator, resnet_model |  | BATCH_SIZE, IMG_SIZE",
    ],
    "iris-sklearn": [
        "load_transform_data <-  |  | x_trn, x_tst, y_trn, y_tst | ",
        "train_model <- load_transform_data | x_trn, y_trn | model | MAX_DEPTH, N_ESTIMATORS",
        "evaluate_model <- load_transform_data, train_model | model, x_tst, y_tst |  | ",
    ],
    "iris-xgboost": [
        "load_transform_data <-  |  | D_trn, D_tst, y_tst | ",
        "train_model <- load_transform_data | D_trn | model | ETA, MAX_DEPTH, OBJECTIVE, STEPS",
        "evaluate_model <- load_transform_data, train_model | D_tst, model, y_tst |  | ",
    ],
    "taxicab": [
        "data_validation <-  |  | column_names, schema | ",
        "data_transformation <- data_validation | column_names, schema | trns_output | ",
        "train <- data_transformation | trns_output | estimator, tf_transform_output, training_input_fn, trns_output |"
        " BATCH_SIZE, HIDDEN_LAYER_SIZE, STEPS",
        "eval <- train | estimator, tf_transform_output, training_input_fn, trns_output |  | BATCH_SIZE",
    ],
}


@pytest.mark.parametrize("name", _CELLS)
def test_steps_edges_inputs_outputs_and_parameters(name: str) -> None:
    made = compiled(*_CELLS[name], pipeline_name=name)
    assert sorted(edges(made)) == sorted(EDGES[name])
    assert made.diagnostics == ()


def test_limits_and_metrics_stay_with_their_steps() -> None:
    pipeline = compiled(*_CELLS["dog-breed-v2"], pipeline_name="dogs").checked()
    limited = {s.name for s in pipeline.steps if s.settings.limits == {"nvidia.com/gpu": "1"}}
    assert limited == {s.name for s in pipeline.steps} - {"data_processing", "vgg16_classifier_eval"}
    # Kale flags metrics on two steps more, which never write any.
    assert [s.name for s in pipeline.steps if s.metrics] == ["resnet50_classifier_eval"]
